// Package sign signs requests for the gateway: [Transport] for all requests of
// an http.Client, [Signer] for one request at a time.
//
// It imports only the standard library and package auth.
//
// Begin with [Signer].
package sign

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A Signer signs requests for the gateway. It is safe for use by many
// goroutines as long as nobody changes it.
type Signer struct {
	KeyID  string // the X-API-Key value
	Secret string // the signing secret, exactly as it was shown
	// Now returns the time; nil means time.Now. The gateway accepts a timestamp
	// that differs from its own clock by at most five minutes, unless its
	// operator has set another window.
	Now func() time.Time
	// Nonce returns a text that no other request of this key has; nil means a
	// random text.
	Nonce func() string
}

// Sign sets the five authentication headers of the request. body is the body
// that will be sent with it; nil or empty for none. Sign does not change the
// request's Body. Call it last: afterwards the method, the URL and the body must
// not change. The gateway accepts the same headers only once: sign a call once, and after
// a failure that leaves its outcome unknown send the same bytes again, headers included. A
// call that is signed anew may be executed a second time.
//
// Sign signs the request target as net/http writes it on the wire. It returns
// an error for a method or a target that the gateway would refuse, for a nonce
// that is not 1 to 256 visible ASCII characters, and for a signer without id or
// secret.
func (s *Signer) Sign(r *http.Request, body []byte) error {
	if s.KeyID == "" || s.Secret == "" {
		return errors.New("sign request: the signer needs a key id and a secret")
	}
	method := cmp.Or(r.Method, http.MethodGet)
	if refusal := auth.CheckMethod(method); refusal != nil {
		return fmt.Errorf("sign request: %s", refusal.Text())
	}
	if r.URL == nil {
		return errors.New("sign request: the request has no URL")
	}
	target := r.URL.RequestURI()
	if _, refusal := auth.ParseTarget(target); refusal != nil {
		return fmt.Errorf("sign request: %s", refusal.Text())
	}
	makeNonce := s.Nonce
	if makeNonce == nil {
		makeNonce = rand.Text
	}
	timestamp, nonce, bodyHash := strconv.FormatInt(s.now().Unix(), 10), makeNonce(), auth.BodyHash(body)
	if !auth.ValidNonce(nonce) {
		return errors.New("sign request: the nonce must be 1 to 256 visible ASCII characters")
	}
	text := auth.AppendStringToSign(nil, method, target, timestamp, nonce, bodyHash)
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Header.Set(auth.HeaderKeyID, s.KeyID)
	r.Header.Set(auth.HeaderTimestamp, timestamp)
	r.Header.Set(auth.HeaderNonce, nonce)
	r.Header.Set(auth.HeaderBodyHash, bodyHash)
	r.Header.Set(auth.HeaderSignature, auth.NewSecret(1, s.Secret, time.Time{}).Sign(text))
	return nil
}

func (s *Signer) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// ErrAnswer means that an answer is not the gateway's answer to the request, or that
// the gateway has not signed it.
var ErrAnswer = errors.New("the answer is not signed for this request")

// maxAnswerAge is how far X-Response-Timestamp may differ from the clock.
const maxAnswerAge = 5 * time.Minute

// maxAnswer is the largest answer that the gateway signs, in bytes.
const maxAnswer = 8 << 20

// VerifyAnswer returns nil if the gateway has signed the answer to the request. The
// request is the signed one, and the body is that of the answer as it was received,
// before a Content-Encoding is removed. Every other error is an [ErrAnswer] and says
// what is wrong.
//
// The gateway signs with the option sign_responses, and only answers to requests
// that passed rules 1 to 10. It cannot sign answers that it streams.
func (s *Signer) VerifyAnswer(request *http.Request, answer *http.Response, body []byte) error {
	var values [4]string
	for i, name := range []string{auth.HeaderAnsweredAt, auth.HeaderAnswerHash, auth.HeaderAnswerSignature, "X-Request-Id"} {
		all := answer.Header.Values(name)
		if len(all) != 1 || all[0] == "" {
			return fmt.Errorf("%w: it has %d headers %s, want 1", ErrAnswer, len(all), name)
		}
		values[i] = all[0]
	}
	timestamp, hash, signature, id := values[0], values[1], values[2], values[3]
	text := auth.AppendAnswerToSign(nil, answer.StatusCode, auth.SignedAnswer{
		RequestID: id, Timestamp: timestamp, Nonce: request.Header.Get(auth.HeaderNonce), BodyHash: hash,
	})
	if !auth.NewSecret(1, s.Secret, time.Time{}).Verify(text, signature) {
		return fmt.Errorf("%w: X-Response-Signature is wrong for the status, the request id, the timestamp, the nonce and the hash", ErrAnswer)
	}
	if hash != auth.BodyHash(body) {
		return fmt.Errorf("%w: X-Response-Body-Hash is not that of the body", ErrAnswer)
	}
	unix, err := strconv.ParseInt(timestamp, 10, 64)
	if age := s.now().Sub(time.Unix(unix, 0)); err != nil || age > maxAnswerAge || age < -maxAnswerAge {
		return fmt.Errorf("%w: X-Response-Timestamp is more than %s from the clock", ErrAnswer, maxAnswerAge)
	}
	return nil
}

// verified reads the answer and verifies it.
func (t *Transport) verified(request *http.Request, answer *http.Response) (*http.Response, error) {
	body, err := readAndClose(io.LimitReader(answer.Body, maxAnswer+1), answer.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if err := t.VerifyAnswer(request, answer, body); err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// A Transport is an http.RoundTripper that signs every request with a fresh
// timestamp and nonce:
//
//	client := &http.Client{Transport: &sign.Transport{Signer: sign.Signer{KeyID: id, Secret: secret}}}
//
// It reads the whole body into memory, because a header holds the hash of the
// body. It does not change the caller's request, except that it reads and closes
// the body. To try again, send the request again: it is signed anew. A redirect
// to another origin is an error, so that no other server receives a signature.
type Transport struct {
	Signer
	// Base sends the signed requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// VerifyAnswers makes RoundTrip read every answer and return an error unless
	// the gateway has signed it; see [Signer.VerifyAnswer]. Refusals with 400 and
	// 401 are never signed, and are errors too.
	VerifyAnswers bool
}

// RoundTrip signs a copy of the request, sends it and returns the answer. It
// returns the errors of [Signer.Sign] and of Base, an error when the body
// cannot be read, and one for a redirect to another origin.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if foreignRedirect(r) {
		return nil, errors.New("sign request: the server redirects to another origin; a request to that one is not signed")
	}
	signed := r.Clone(r.Context())
	setBody(signed, body)
	if err := t.Sign(signed, body); err != nil {
		return nil, err
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if !t.VerifyAnswers {
		return base.RoundTrip(signed)
	}
	if signed.Header.Get("Accept-Encoding") == "" {
		signed.Header.Set("Accept-Encoding", "identity") // else net/http decompresses what was signed
	}
	answer, err := base.RoundTrip(signed)
	if err != nil {
		return nil, err
	}
	return t.verified(signed, answer)
}

// readBody returns the whole body and closes it. A RoundTripper must close it
// even after an error.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := readAndClose(r.Body, r.Body)
	if err != nil {
		return nil, fmt.Errorf("sign request: read its body: %w", err)
	}
	return body, nil
}

// readAndClose returns what the reader has left, and the first error of both.
func readAndClose(r io.Reader, c io.Closer) ([]byte, error) {
	body, err := io.ReadAll(r)
	return body, cmp.Or(err, c.Close())
}

func setBody(r *http.Request, body []byte) {
	r.TransferEncoding = nil
	r.Trailer = nil
	r.ContentLength = int64(len(body))
	r.Body, r.GetBody = http.NoBody, nil
	if len(body) == 0 {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// With GetBody, net/http repeats a request when its connection was closed
	// before anything was written. That is safe. It would also repeat a written
	// request that has an idempotency key. The gateway would refuse that copy as
	// a replay, so the caller has to send (and sign) it again.
	if r.Header["Idempotency-Key"] == nil && r.Header["X-Idempotency-Key"] == nil {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
}

// foreignRedirect reports whether the request follows a redirect that left the
// scheme and host of the request before.
func foreignRedirect(r *http.Request) bool {
	if r.Response == nil || r.Response.Request == nil {
		return false
	}
	from := r.Response.Request.URL
	return from.Host != r.URL.Host || from.Scheme != r.URL.Scheme
}
