package cardclient

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// A Transport is an http.RoundTripper that signs requests and repeats what may be
// repeated: a POST, PUT, PATCH or DELETE as the same bytes, so that it is executed at
// most once, and a GET or HEAD signed anew. It reads the whole body into memory,
// because a header holds its hash. An answer of any status is returned as it
// is; [Client] makes errors of refusals. Use one Transport for all requests of
// a key, from any number of goroutines; do not change it while it is in use.
//
// A request that has the headers X-Nonce and X-Timestamp already is signed with these.
type Transport struct {
	Signer
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Attempts is the largest number of attempts; 0 means 3, 1 no repetition.
	Attempts int
	// MaxWait is the longest wait before another attempt; 0 means 30 s. If the
	// server asks for more, there is no other attempt.
	MaxWait time.Duration
	// Warn is called with a text when the clock of this machine is wrong; nil
	// means log.Print.
	Warn func(text string)
	// VerifyAnswers makes RoundTrip read every answer and believe only those that the
	// gateway has signed for this request; the error for others is an [UnprovenError].
	// It needs a gateway with the option sign_responses. Without it somebody between can
	// forge answers, and nothing is certain.
	VerifyAnswers bool

	whole  bool  // answers are read whole: a GET whose answer ends early is repeated
	offset int32 // seconds by which the gateway's clock is ahead; atomic
}

// RoundTrip signs and sends the request. It returns an [UnsignableError] before
// anything is sent, a [ConnectionError], an [UnprovenError], a [TakenError] or an
// [UnknownError].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if redirectsElsewhere(r) {
		return nil, &RedirectError{r.Response.StatusCode, r.URL.String()}
	}
	x := t.begin(r)
	for {
		if err := x.sign(body); err != nil {
			return nil, err
		}
		answer, sent, err := t.send(x, body)
		var next step
		if err != nil {
			next = x.failed(sent, err)
		} else {
			next = x.answered(answer)
		}
		if !next.again || r.Context().Err() != nil {
			if next.err != nil && answer != nil {
				_ = answer.Body.Close()
			}
			if next.again {
				return nil, x.unknown(r.Context().Err())
			}
			return next.answer, next.err
		}
		if answer != nil {
			drain(answer)
		}
		select {
		case <-time.After(next.wait):
		case <-r.Context().Done():
			return nil, x.unknown(r.Context().Err())
		}
	}
}

// send makes one attempt. sent reports whether the server may have received it.
func (t *Transport) send(x *exchange, body []byte) (answer *http.Response, sent bool, err error) {
	trace := httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }}
	signed := x.request.Clone(httptrace.WithClientTrace(x.request.Context(), &trace))
	setBody(signed, body)
	signed.Method = x.method
	for name, value := range x.headers {
		signed.Header.Set(name, value)
	}
	if t.VerifyAnswers {
		signed.Header.Set("Accept-Encoding", "identity") // else net/http decompresses what was signed
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	answer, err = base.RoundTrip(signed)
	return answer, sent, err
}

// correctClock takes over the gateway's clock from a refusal that says that ours is
// wrong, and reports whether another attempt is worth while. Only an answer that is
// signed, or a server that is authenticated or on this machine, may set the clock.
func (t *Transport) correctClock(u *url.URL, answer *http.Response) bool {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if t.VerifyAnswers {
		var seconds int64
		seconds, err = strconv.ParseInt(answer.Header.Get(headerAnsweredAt), 10, 64)
		date = time.Unix(seconds, 0)
	} else if !TrustsDate(u) {
		return false
	}
	offset := date.Sub(t.now())
	if err != nil || offset > 24*time.Hour || offset < -24*time.Hour {
		return false
	}
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

// drain reads a short rest of the answer, so that the connection can be used
// again, and closes it.
func drain(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10)
	_ = answer.Body.Close()
}
