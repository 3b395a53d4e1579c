package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"strconv"
	"sync"
	"time"
)

// EmptyBodyHash is X-Body-Hash of a request without a body.
const EmptyBodyHash = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

// digestText is the length of 32 bytes in standard base64 with its padding.
const digestText = 44

// AppendStringToSign appends the string to sign to dst and returns the extended
// slice. The string is the method, the request target as it is on the wire, and
// the values of X-Timestamp, X-Nonce and X-Body-Hash, joined by single line
// feeds (the published interface, Authentication, String to sign). In an
// accepted request none of the five holds a line feed, so two different
// requests never have the same string.
func AppendStringToSign(dst []byte, method, target, timestamp, nonce, bodyHash string) []byte {
	dst = append(dst, method...)
	dst = append(dst, '\n')
	dst = append(dst, target...)
	dst = append(dst, '\n')
	dst = append(dst, timestamp...)
	dst = append(dst, '\n')
	dst = append(dst, nonce...)
	dst = append(dst, '\n')
	return append(dst, bodyHash...)
}

// A SignedAnswer is what a signed answer binds together, besides its status: the
// id and the nonce of the request, X-Response-Timestamp and X-Response-Body-Hash.
type SignedAnswer struct{ RequestID, Timestamp, Nonce, BodyHash string }

// AppendAnswerToSign appends the string of which X-Response-Signature is the HMAC
// to dst, and returns the extended slice: a name of its own, so that it is never
// the string to sign of a request, then status, request id, timestamp, nonce and
// body hash, joined by single line feeds.
func AppendAnswerToSign(dst []byte, status int, a SignedAnswer) []byte {
	dst = append(dst, "card-gateway-response-v1\n"...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	for _, part := range []string{a.RequestID, a.Timestamp, a.Nonce, a.BodyHash} {
		dst = append(append(dst, '\n'), part...)
	}
	return dst
}

// BodyHash returns X-Body-Hash for the body: the SHA-256 of its bytes in
// standard base64 with padding.
func BodyHash(body []byte) string { return EncodeHash(sha256.Sum256(body)) }

// EncodeHash returns the 44 characters of standard base64 for a SHA-256.
func EncodeHash(sum [sha256.Size]byte) string {
	return base64.StdEncoding.EncodeToString(sum[:])
}

// BodyHashEqual reports in constant time whether the value of X-Body-Hash is
// exactly the text that [EncodeHash] returns for the sum. The header is never
// decoded: hex, base64url, missing padding and other spellings that a lenient
// decoder would accept are mismatches.
func BodyHashEqual(header string, sum [sha256.Size]byte) bool {
	var want [digestText]byte
	base64.StdEncoding.Encode(want[:], sum[:])
	return equalText(&want, header)
}

// equalText reports whether the texts are equal. The time that it takes does
// not depend on the text given or its length.
func equalText(want *[digestText]byte, given string) bool {
	var text [digestText]byte
	copy(text[:], given)
	same := subtle.ConstantTimeCompare(want[:], text[:])
	return same&subtle.ConstantTimeEq(int32(min(len(given), digestText+1)), digestText) == 1
}

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
