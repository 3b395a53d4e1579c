// Package sign signs requests for the gateway: [Transport] for all requests of
// an http.Client, [Signer] for one request at a time.
//
// It imports only the standard library and package auth.
package sign

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
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
// not change. Sign each attempt anew, because the gateway accepts the same
// headers only once.
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
