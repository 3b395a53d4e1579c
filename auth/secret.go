package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"
	"time"
)

// A Secret is one signing secret of a key, ready to verify with: HMAC states
// are prepared once and reused. It is safe for use by many goroutines and
// never shows its text.
type Secret struct {
	version int
	expires time.Time
	text    []byte
	states  sync.Pool // of *macState
}

// macState is an HMAC keyed with the secret and room for what it yields.
type macState struct {
	mac  hash.Hash
	sum  [sha256.Size]byte
	text [digestText]byte
}

// NewSecret returns the secret of the version whose key bytes are the text in
// UTF-8. It is live until the moment it expires; the zero time is never.
func NewSecret(version int, text string, expires time.Time) *Secret {
	s := &Secret{version: version, expires: expires, text: []byte(text)}
	s.states.New = func() any { return &macState{mac: hmac.New(sha256.New, s.text)} }
	return s
}

// Version returns the number of the secret, from 1; each of a key has another.
func (s *Secret) Version() int { return s.version }

// Expires returns the end of the secret; the zero time is never.
func (s *Secret) Expires() time.Time { return s.expires }

// Live reports whether the secret is valid at now.
func (s *Secret) Live(now time.Time) bool {
	return s.expires.IsZero() || now.Before(s.expires)
}

// Verify reports in constant time whether the value of X-Signature is the one
// spelling of the HMAC of the string to sign. It is compared as text and never
// decoded, see [BodyHashEqual].
func (s *Secret) Verify(stringToSign []byte, signature string) bool {
	st := s.compute(stringToSign)
	ok := equalText(&st.text, signature)
	s.states.Put(st)
	return ok
}

// Sign returns X-Signature: the HMAC-SHA256 of the string to sign in standard
// base64 with padding.
func (s *Secret) Sign(stringToSign []byte) string {
	st := s.compute(stringToSign)
	text := string(st.text[:])
	s.states.Put(st)
	return text
}

// compute takes a state from the pool and leaves the signature in its text.
func (s *Secret) compute(stringToSign []byte) *macState {
	st := s.states.Get().(*macState)
	st.mac.Reset()
	st.mac.Write(stringToSign)
	base64.StdEncoding.Encode(st.text[:], st.mac.Sum(st.sum[:0]))
	return st
}

// String hides the text.
func (s *Secret) String() string { return "[secret]" }

// GoString hides the text.
func (s *Secret) GoString() string { return "[secret]" }
