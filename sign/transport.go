package sign

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
)

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
