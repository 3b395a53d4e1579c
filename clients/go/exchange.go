package cardclient

import (
	"errors"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	messageReplay  = "Replay detected (duplicate nonce)"
	messageWindow  = "Request timestamp is outside the allowed window"
	repeatWithin   = 270 * time.Second // of the signature: the gateway's window is five minutes
	mayExecuteFor  = 6 * time.Minute   // after the timestamp: the window, and a minute for the clocks
	firstJitter    = 250 * time.Millisecond
	longestJitter  = 8 * time.Second
	defaultTries   = 3
	defaultMaxWait = 30 * time.Second
)

// An exchange is one call between its attempts. It decides what an answer, or none,
// means. A call that may change something is signed once, and each attempt sends the
// same bytes: the gateway accepts them once. It is signed anew only after an answer that
// says for certain that it was not executed.
type exchange struct {
	transport *Transport
	request   *http.Request
	method    string
	attempts  int

	signer    Signer // with the corrected clock
	headers   map[string]string
	signedAt  time.Time // by the monotonic clock
	anew      bool      // the next attempt is signed anew
	corrected bool      // the clock was set for this call
	out       bool      // the server has perhaps received what was signed last
	perhaps   bool      // an attempt was perhaps accepted
}

// A step is what follows an attempt: another one after a wait, an answer or an error.
type step struct {
	again  bool
	wait   time.Duration
	answer *http.Response
	err    error
}

func (t *Transport) begin(r *http.Request) *exchange {
	x := &exchange{transport: t, request: r, method: r.Method, anew: true}
	if x.method == "" {
		x.method = http.MethodGet
	}
	return x
}

func (x *exchange) safe() bool { return x.method == http.MethodGet || x.method == http.MethodHead }

// sign makes the headers of the next attempt.
func (x *exchange) sign(body []byte) error {
	x.attempts++
	if !x.anew && !x.safe() {
		return nil
	}
	ahead := time.Duration(atomic.LoadInt32(&x.transport.offset)) * time.Second
	now := x.transport.now
	x.signer = x.transport.Signer
	x.signer.Now = func() time.Time { return now().Add(ahead) }
	signer := x.signer
	if x.headers == nil { // later ones are not those that the caller has chosen
		if nonce := x.request.Header.Get(headerNonce); nonce != "" {
			signer.Nonce = func() string { return nonce }
		}
		if seconds, err := strconv.ParseInt(x.request.Header.Get(headerTimestamp), 10, 64); err == nil {
			signer.Now = func() time.Time { return time.Unix(seconds, 0) }
		}
	}
	headers, err := signer.Headers(x.method, x.request.URL.RequestURI(), body)
	x.headers, x.signedAt, x.anew = headers, time.Now(), false
	return err
}

// failed is the step after an attempt without an answer. sent reports whether the server
// may have received it.
func (x *exchange) failed(sent bool, err error) step {
	x.out, x.perhaps = x.out || sent, x.perhaps || sent
	if wait, again := x.again(0); again {
		return step{again: true, wait: wait}
	}
	failure := &ConnectionError{Sent: x.out, Attempts: x.attempts, Err: err}
	if x.safe() || !x.out {
		return step{err: failure}
	}
	return step{err: x.unknown(failure)}
}

// answered is the step after an attempt with an answer, whose body is in memory if it
// has to be.
func (x *exchange) answered(answer *http.Response) step {
	var body []byte
	var err error
	if x.reads(answer) {
		body, err = peekBody(answer)
	}
	if err != nil {
		return x.failed(true, err)
	}
	refused := newAPIError(answer, body)
	unproven := x.verify(answer, refused, body)
	if x.safe() {
		return x.answeredSafe(answer, refused, unproven)
	}
	x.out = true
	if unproven != nil { // whoever has written it, it says nothing
		x.perhaps = true
		if wait, again := x.again(0); again {
			return step{again: true, wait: wait}
		}
		return step{err: x.unknown(unproven)}
	}
	switch {
	case refused.NotExecuted():
		if wait, again := x.again(refused.RetryAfter); again {
			x.anew, x.out, x.perhaps = true, false, false
			return step{again: true, wait: wait}
		}
		return step{answer: answer}
	case refused.Accepted != nil && *refused.Accepted:
		return step{answer: answer}
	case refused.is(messageReplay):
		return step{err: &TakenError{Call: x.call(), RequestID: refused.RequestID, perhaps: x.perhaps}}
	case refused.is(messageWindow) && x.attempts == 1 && !x.corrected && x.transport.correctClock(x.request.URL, answer):
		x.anew, x.corrected, x.out, x.attempts = true, true, false, 0 // it was refused before anything was done
		return step{again: true}
	case answer.StatusCode == http.StatusTooManyRequests, answer.StatusCode == http.StatusServiceUnavailable,
		(answer.StatusCode == http.StatusBadGateway || answer.StatusCode == http.StatusGatewayTimeout) && !x.transport.VerifyAnswers && !refused.ofGateway():
		x.perhaps = x.perhaps || refused.Accepted == nil
		if wait, again := x.again(refused.RetryAfter); again {
			return step{again: true, wait: wait}
		}
		return step{err: x.unknown(refused)} // the same bytes may still be accepted, from whoever has them
	case !refused.ofGateway():
		return step{answer: answer} // the issuer's
	}
	if x.perhaps {
		return step{err: x.unknown(refused)}
	}
	return step{answer: answer}
}

func (x *exchange) answeredSafe(answer *http.Response, refused *APIError, unproven error) step {
	if refused.is(messageWindow) && !x.corrected && (unproven == nil || !x.transport.VerifyAnswers) && x.transport.correctClock(x.request.URL, answer) {
		x.corrected = true
		x.attempts-- // it was refused before anything was done
		return step{again: true}
	}
	_, says := retryAfter(answer)
	unforwarded := answer.Header.Get("X-Gateway-Forwarded") == "no"
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable && (unforwarded || says) {
		if wait, again := x.again(refused.RetryAfter); again {
			return step{again: true, wait: wait}
		}
	}
	if unproven != nil {
		return step{err: unproven}
	}
	return step{answer: answer}
}

// reads reports whether the body is read before it is handed over. That of an event
// stream, and of an answer that is not signed although it must be, may never end.
func (x *exchange) reads(answer *http.Response) bool {
	switch {
	case answer.StatusCode >= 400:
		return true
	case x.transport.VerifyAnswers:
		return !unsigned(answer.Header)
	default:
		return (x.transport.whole || !x.safe()) && !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream")
	}
}

// verify returns nil if the answer is believed. Of a refusal because of our clock, the
// time cannot be compared with it; the nonce shows that the answer is new.
func (x *exchange) verify(answer *http.Response, refused *APIError, body []byte) error {
	if !x.transport.VerifyAnswers {
		return nil
	}
	signer := x.signer
	if seconds, err := strconv.ParseInt(answer.Header.Get(headerAnsweredAt), 10, 64); err == nil && refused.is(messageWindow) {
		signer.Now = func() time.Time { return time.Unix(seconds, 0) }
	}
	return signer.VerifyAnswer(x.headers[headerNonce], answer.StatusCode, answer.Header, body)
}

// again returns how long to wait before another attempt, and false if there must be
// none. asked is what the server asks for.
func (x *exchange) again(asked time.Duration) (time.Duration, bool) {
	attempts, longest := x.transport.Attempts, x.transport.MaxWait
	if attempts == 0 {
		attempts = defaultTries
	}
	if longest == 0 {
		longest = defaultMaxWait
	}
	// Jitter, so that many clients do not come back together.
	most := firstJitter << uint(x.attempts)
	if most > longestJitter || most <= 0 {
		most = longestJitter
	}
	source := rand.New(rand.NewSource(time.Now().UnixNano())) //nolint:gosec // it protects nothing
	wait := asked + time.Duration(source.Int63n(int64(most)))
	if x.attempts >= attempts || asked > longest || !x.safe() && time.Since(x.signedAt)+wait > repeatWithin {
		return 0, false
	}
	return wait, true
}

// call names the call as it was signed last.
func (x *exchange) call() Call {
	seconds, _ := strconv.ParseInt(x.headers[headerTimestamp], 10, 64)
	return Call{Nonce: x.headers[headerNonce], Timestamp: time.Unix(seconds, 0)}
}

// unknown returns the error of a call whose outcome is not known, because of err; for a
// request that changes nothing, err.
func (x *exchange) unknown(err error) error {
	if x.safe() || errors.As(err, new(*UnknownError)) {
		return err
	}
	return &UnknownError{Call: x.call(), Attempts: x.attempts, Err: err}
}
