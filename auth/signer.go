package auth

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// A Signer signs requests for the gateway. It is safe for use by many
// goroutines as long as nobody changes it.
type Signer struct {
	KeyID  string // the X-API-Key value
	Secret string // the signing secret, exactly as it was shown
	// Now tells the time; nil is time.Now. The gateway accepts a timestamp
	// that differs from its own clock by at most five minutes.
	Now func() time.Time
	// Nonce returns a text that no other request of this key has; nil makes a
	// random one.
	Nonce func() string
}

// Sign sets the five authentication headers on the request, for the body that
// will be sent with it; nil or empty for none. It does not touch the
// request's Body. Sign last: after it neither the method nor the URL nor the
// body may change. Sign each attempt anew, because the gateway takes the same
// headers once.
//
// What is signed is the request target as net/http writes it on the wire. A
// method or a target that the gateway would refuse is an error, and so is a
// signer without id or secret.
func (s *Signer) Sign(r *http.Request, body []byte) error {
	if s.KeyID == "" || s.Secret == "" {
		return errors.New("sign request: the signer needs a key id and a secret")
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	if refusal := CheckMethod(method); refusal != nil {
		return fmt.Errorf("sign request: %s", refusal.Text())
	}
	if r.URL == nil {
		return errors.New("sign request: it has no URL")
	}
	target := r.URL.RequestURI()
	if _, refusal := ParseTarget(target); refusal != nil {
		return fmt.Errorf("sign request: %s", refusal.Text())
	}
	timestamp, nonce, bodyHash := s.timestamp(), s.nonce(), BodyHash(body)
	if !validNonce(nonce) {
		return errors.New("sign request: the nonce must be 1 to 256 visible ASCII characters")
	}
	text := AppendStringToSign(nil, method, target, timestamp, nonce, bodyHash)
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Header.Set(HeaderKeyID, s.KeyID)
	r.Header.Set(HeaderTimestamp, timestamp)
	r.Header.Set(HeaderNonce, nonce)
	r.Header.Set(HeaderBodyHash, bodyHash)
	r.Header.Set(HeaderSignature, NewSecret(1, s.Secret, time.Time{}).Sign(text))
	return nil
}

func (s *Signer) timestamp() string {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	return strconv.FormatInt(now().Unix(), 10)
}

func (s *Signer) nonce() string {
	if s.Nonce != nil {
		return s.Nonce()
	}
	return rand.Text()
}

// A Transport is an http.RoundTripper that signs every request that goes
// through it with a fresh timestamp and nonce:
//
//	client := &http.Client{Transport: &auth.Transport{Signer: auth.Signer{KeyID: id, Secret: secret}}}
//
// It reads a request's body into memory, because its hash travels in a header,
// and leaves the caller's request as it was. To try again, send the request
// again: it is signed anew. A redirect to another origin is refused rather than
// signed, so that no signature is given to a stranger.
type Transport struct {
	Signer
	// Base sends the signed requests; nil is http.DefaultTransport.
	Base http.RoundTripper
}

// RoundTrip signs a copy of the request and sends it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if foreignRedirect(r) {
		return nil, errors.New("sign request: the server redirects to another origin, which is not given a signature")
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
	return base.RoundTrip(signed)
}

// readBody reads and closes the body, as a RoundTripper must in any case.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if closeErr := r.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("sign request: read its body: %w", err)
	}
	return body, nil
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
	// With GetBody net/http repeats a request whose connection was closed
	// before anything was written, which is safe. It would also repeat one
	// that has an idempotency key after it was written; that copy would be
	// refused as a replay, so the caller has to send (and sign) it again.
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
