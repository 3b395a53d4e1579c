package cardclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// A Transport is an http.RoundTripper that signs every attempt of a request
// anew, and repeats what may be repeated. It reads the whole body into memory,
// because a header holds its hash. An answer of any status is returned as it
// is; [Client] makes errors of refusals. Use one Transport for all requests of
// a key, from any number of goroutines; do not change it while it is in use.
type Transport struct {
	Signer
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Attempts is the largest number of attempts; 0 means 3.
	Attempts int
	// MaxWait is the longest wait before another attempt; 0 means 30 s. If the
	// server asks for more, the answer is returned at once.
	MaxWait time.Duration
	// Warn is called with a text when the clock of this machine is wrong; nil
	// means log.Print.
	Warn func(text string)
	// VerifyAnswers makes RoundTrip read every answer and return an [UnprovenError]
	// for each that the gateway has not signed for this request. It needs a gateway
	// with the option sign_responses.
	VerifyAnswers bool

	offset int32 // seconds by which the gateway's clock is ahead; atomic
}

// An attempt is the state of one request between its attempts.
type attempt struct {
	number    int  // from 1
	sent      bool // whether the server may have received the last one
	corrected bool // whether the clock was set for this request

	signer Signer // with the corrected clock
	nonce  string
}

// RoundTrip signs and sends the request. It returns an [UnsignableError] before
// anything is sent, a [ConnectionError] or an [UnprovenError].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if redirectsElsewhere(r) {
		return nil, &RedirectError{r.Response.StatusCode, r.URL.String()}
	}
	for a := (attempt{number: 1}); ; a.number++ {
		answer, err := t.try(r, body, &a)
		if errors.As(err, new(*UnsignableError)) {
			return nil, err
		}
		if err == nil && answer.StatusCode == http.StatusUnauthorized && !a.corrected && t.correctClock(r.URL, answer) {
			a.corrected = true
			a.number-- // it was refused before anything was done
			continue
		}
		wait, again := t.wait(r.Method, a, answer)
		if !again || r.Context().Err() != nil {
			if err == nil && t.VerifyAnswers {
				answer, err = a.signer.verified(a.nonce, answer)
			}
			if err != nil && !errors.As(err, new(*UnprovenError)) {
				err = &ConnectionError{Sent: a.sent, Attempts: a.number, Err: err}
			}
			return answer, err
		}
		if answer != nil {
			drain(answer)
		}
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// try makes one attempt.
func (t *Transport) try(r *http.Request, body []byte, a *attempt) (*http.Response, error) {
	a.sent = false
	trace := httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.sent = true }}
	signed := r.Clone(httptrace.WithClientTrace(r.Context(), &trace))
	setBody(signed, body)
	if signed.Method == "" {
		signed.Method = http.MethodGet
	}
	ahead := time.Duration(atomic.LoadInt32(&t.offset)) * time.Second
	a.signer = t.Signer
	a.signer.Now = func() time.Time { return t.now().Add(ahead) }
	headers, err := a.signer.Headers(signed.Method, signed.URL.RequestURI(), body)
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		signed.Header.Set(name, value)
	}
	a.nonce = headers[headerNonce]
	if t.VerifyAnswers {
		signed.Header.Set("Accept-Encoding", "identity") // else net/http decompresses what was signed
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(signed)
}

// wait returns how long to wait before another attempt, and false if there must
// be none. answer is nil if the connection failed.
func (t *Transport) wait(method string, a attempt, answer *http.Response) (time.Duration, bool) {
	attempts, longest := t.Attempts, t.MaxWait
	if attempts == 0 {
		attempts = 3
	}
	if longest == 0 {
		longest = 30 * time.Second
	}
	safe := method == "" || method == http.MethodGet || method == http.MethodHead
	var asked time.Duration
	var says bool
	may := answer == nil && (safe || !a.sent)
	if answer != nil {
		asked, says = retryAfter(answer)
		unforwarded := answer.Header.Get("X-Gateway-Forwarded") == "no"
		may = answer.StatusCode == http.StatusTooManyRequests ||
			answer.StatusCode == http.StatusServiceUnavailable && (unforwarded || safe && says)
	}
	if !may || a.number >= attempts || asked > longest {
		return 0, false
	}
	// Jitter, so that many clients do not come back together.
	most := 250 * time.Millisecond << uint(a.number)
	if most > 8*time.Second || most <= 0 {
		most = 8 * time.Second
	}
	source := rand.New(rand.NewSource(time.Now().UnixNano())) //nolint:gosec // it protects nothing
	return asked + time.Duration(source.Int63n(int64(most))), true
}

// correctClock takes over the gateway's clock if the answer says that ours is
// wrong, and reports whether another attempt is worth while. Only a server that
// is authenticated, or on this machine, may set the clock.
func (t *Transport) correctClock(u *url.URL, answer *http.Response) bool {
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	answer.Body = readCloser{io.MultiReader(bytes.NewReader(body), answer.Body), answer.Body}
	if err != nil || newAPIError(answer, body).Message != "Request timestamp is outside the allowed window" || !TrustsDate(u) {
		return false
	}
	date, err := http.ParseTime(answer.Header.Get("Date"))
	offset := date.Sub(t.now())
	if err != nil || offset > 24*time.Hour || offset < -24*time.Hour {
		return false
	}
	drain(answer)
	atomic.StoreInt32(&t.offset, int32(offset.Round(time.Second)/time.Second))
	warn := t.Warn
	if warn == nil {
		warn = func(text string) { log.Print(text) }
	}
	warn(fmt.Sprintf("card request: the clock of this machine differs from the gateway's by %s; set it by NTP", offset.Round(time.Second)))
	return true
}

// TrustsDate reports whether the Date of an answer from the URL may set the
// clock: over TLS, and from this machine.
func TrustsDate(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// redirectsElsewhere reports whether an http.Client follows a redirect to
// another origin. The new request has no signature yet, and must not get one.
func redirectsElsewhere(r *http.Request) bool {
	if r.Response == nil || r.Response.Request == nil {
		return false
	}
	from := r.Response.Request.URL
	return from.Host != r.URL.Host || from.Scheme != r.URL.Scheme
}

// readBody returns the whole body and closes it.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("card request: read the body: %w", err)
	}
	return body, nil
}

// setBody sets the body of one attempt. Without GetBody, and with a Body that is
// never nil, net/http does not repeat the request by itself, with an old nonce.
func setBody(r *http.Request, body []byte) {
	r.TransferEncoding, r.Trailer, r.GetBody = nil, nil, nil
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
}

type readCloser struct {
	io.Reader
	io.Closer
}

// drain reads a short rest of the answer, so that the connection can be used
// again, and closes it.
func drain(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10)
	_ = answer.Body.Close()
}
