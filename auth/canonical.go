package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
)

// EmptyBodyHash is X-Body-Hash of a request without a body.
const EmptyBodyHash = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

// digestText is the length of 32 bytes in standard base64 with its padding.
const digestText = 44

// AppendStringToSign appends to dst what is signed: the method, the request
// target as it is on the wire, and the values of X-Timestamp, X-Nonce and
// X-Body-Hash, joined by single line feeds (the published interface,
// Authentication, String to sign). No field of a request that is accepted can
// hold a line feed, so no two requests share a string.
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

// BodyHash returns X-Body-Hash for the body: the SHA-256 of its bytes in
// standard base64 with padding.
func BodyHash(body []byte) string { return EncodeHash(sha256.Sum256(body)) }

// EncodeHash returns the 44 characters of standard base64 for a SHA-256.
func EncodeHash(sum [sha256.Size]byte) string {
	return base64.StdEncoding.EncodeToString(sum[:])
}

// BodyHashEqual reports in constant time whether the value of X-Body-Hash is
// the one spelling of the SHA-256 of the body. The header is compared as text
// and never decoded: hex, base64url, missing padding and twins that a lenient
// decoder would take for the same are mismatches.
func BodyHashEqual(header string, sum [sha256.Size]byte) bool {
	var want [digestText]byte
	base64.StdEncoding.Encode(want[:], sum[:])
	return equalText(&want, header)
}

// equalText compares in constant time, for a given text of any length.
func equalText(want *[digestText]byte, given string) bool {
	var text [digestText]byte
	copy(text[:], given)
	same := subtle.ConstantTimeCompare(want[:], text[:])
	return same&subtle.ConstantTimeEq(int32(min(len(given), digestText+1)), digestText) == 1
}
