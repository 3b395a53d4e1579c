// Package keyid makes the ids of keys, and recognises those that it has made.
//
// [Key.Mint] makes an id with a keyed checksum, and [Key.Check] recognises it, so that
// an invented id can be refused without reading the store. Imported ids have no
// checksum; [Valid] reports which a key may have. The fingerprints of secrets are made
// with the same [Key].
//
// Begin with [Key].
package keyid

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"strings"
)

// Mode distinguishes live keys from test keys. It is part of the key id.
type Mode string

// The two modes of a key.
const (
	Live Mode = "live"
	Test Mode = "test"
)

// The parts of the ids that [Key.Mint] makes.
const (
	livePrefix = "ck_live_"
	testPrefix = "ck_test_"
	idRandom   = 16 // random bytes of an id
	idChecksum = 4  // bytes of the checksum that follow them
	idText     = 32 // characters of these bytes in base32
)

// lowerBase32 is base32 in lower case; 20 bytes fill 32 characters exactly, so
// an id has one spelling.
var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// A Key makes key ids and recognises them, so that an invented id can be
// refused without reading the store. It is a secret that stays the same for the
// life of the store.
type Key [32]byte

// NewKey returns a random key.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails
	return k
}

// Mint returns a new id for the mode: ck_live_ or ck_test_ and 32 characters
// of a-z and 2-7 that hold 128 random bits and a keyed checksum of 32 bits.
func (k Key) Mint(m Mode) string {
	prefix := livePrefix
	if m == Test {
		prefix = testPrefix
	}
	var id [idRandom + idChecksum]byte
	rand.Read(id[:idRandom]) // never fails
	copy(id[idRandom:], k.derive("key id", prefix+string(id[:idRandom])))
	return prefix + lowerBase32.EncodeToString(id[:])
}

// Check reports in constant time whether Mint made the id with this key. It is
// false for an imported id of another system, because that has no checksum.
func (k Key) Check(id string) bool {
	prefix, raw, ok := splitID(id)
	if !ok {
		return false
	}
	want := k.derive("key id", prefix+string(raw[:idRandom]))
	return subtle.ConstantTimeCompare(want[:idChecksum], raw[idRandom:]) == 1
}

// splitID returns the prefix and the bytes of an id that has the form of the ids
// that Mint makes. It returns false for any other form. It does not check the
// checksum.
func splitID(id string) (prefix string, raw []byte, ok bool) {
	if !strings.HasPrefix(id, livePrefix) && !strings.HasPrefix(id, testPrefix) || len(id) != len(livePrefix)+idText {
		return "", nil, false
	}
	raw, err := lowerBase32.DecodeString(id[len(livePrefix):])
	if err != nil || len(raw) != idRandom+idChecksum {
		return "", nil, false // the decoder skips line ends, so that raw can be too short
	}
	return id[:len(livePrefix)], raw, true
}

// WellFormed reports whether an id has the form of the ids that [Key.Mint] makes.
// It does not check the checksum.
func WellFormed(id string) bool {
	_, _, ok := splitID(id)
	return ok
}

// Fingerprint returns 16 bytes that are equal for equal secrets and differ for
// others. Without the id key they reveal nothing about the secret.
func (k Key) Fingerprint(secret string) []byte {
	return k.derive("secret fingerprint", secret)[:16]
}

// derive returns the HMAC of the data for one of the key's uses.
func (k Key) derive(use, data string) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte("card-gateway " + use + "\x00"))
	mac.Write([]byte(data))
	return mac.Sum(nil)
}

// String hides the key.
func (k Key) String() string { return "[id key]" }

// GoString hides the key.
func (k Key) GoString() string { return "[id key]" }

// ModeOf returns the mode of a key by its id: [Test] for the prefix ck_test_,
// else [Live]. Imported ids of another system are live.
func ModeOf(id string) Mode {
	if strings.HasPrefix(id, testPrefix) {
		return Test
	}
	return Live
}

// MaxLength is the longest id of a key in bytes.
const MaxLength = 128

// allowed are the characters of ids.
const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:@+=-"

// Valid reports whether a key may have the id: 1 to 128 ASCII letters, digits
// and `. _ ~ : @ + = -`, but neither "." nor "..". An id with another character
// cannot be imported, because ids are part of URL paths of the admin API and of
// names of stored values.
func Valid(id string) bool {
	return id != "" && len(id) <= MaxLength && id != "." && id != ".." && strings.Trim(id, allowed) == ""
}
