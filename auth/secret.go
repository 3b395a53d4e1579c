package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"
	"time"
)

// A Secret is one signing secret of a key. Its HMAC states are prepared once
// and reused. It is safe for use by many goroutines, and its String and
// GoString hide its text.
type Secret struct {
	version int
	expires time.Time
	text    []byte
	states  sync.Pool // of *macState
}

// macState is an HMAC keyed with the secret, with buffers for its result.
type macState struct {
	mac  hash.Hash
	sum  [sha256.Size]byte
	text [digestText]byte
}

// NewSecret returns a secret with the version. The bytes of the text in UTF-8
// are the HMAC key. The secret is live until it expires; the zero time means
// that it never does.
func NewSecret(version int, text string, expires time.Time) *Secret {
	s := &Secret{version: version, expires: expires, text: []byte(text)}
	s.states.New = func() any { return &macState{mac: hmac.New(sha256.New, s.text)} }
	return s
}

// Version returns the number that distinguishes the secrets of one key. It
// starts at 1.
func (s *Secret) Version() int { return s.version }

// Expires returns the end of the secret; the zero time means never.
func (s *Secret) Expires() time.Time { return s.expires }

// Live reports whether the secret has not expired at now.
func (s *Secret) Live(now time.Time) bool {
	return s.expires.IsZero() || now.Before(s.expires)
}

// Verify reports in constant time whether the value of X-Signature is exactly
// the text that [Secret.Sign] returns for the string to sign. The value is
// never decoded; see [BodyHashEqual].
func (s *Secret) Verify(stringToSign []byte, signature string) bool {
	st := s.compute(stringToSign)
	ok := equalText(&st.text, signature)
	s.states.Put(st)
	return ok
}

// Sign returns the value of X-Signature: the HMAC-SHA256 of the string to sign
// in standard base64 with padding.
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

// Read returns the secret as a client has it that makes something else of its
// text, such as what base64 decodes it to; nil when read returns nil. It serves
// to explain a refusal. The text that read gets must not be kept or changed.
func (s *Secret) Read(read func(text []byte) []byte) *Secret {
	text := read(s.text)
	if text == nil {
		return nil
	}
	return NewSecret(s.version, string(text), s.expires)
}

// String hides the text.
func (s *Secret) String() string { return "[secret]" }

// GoString hides the text.
func (s *Secret) GoString() string { return "[secret]" }
