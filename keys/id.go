package keys

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

// The prefixes of the ids that [IDKey.Mint] makes.
const (
	livePrefix = "ck_live_"
	testPrefix = "ck_test_"
)

const (
	idRandom   = 16 // random bytes of an id
	idChecksum = 4  // bytes of the checksum that follow them
	idText     = 32 // characters of these bytes in base32
)

// lowerBase32 is base32 in lower case; 20 bytes fill 32 characters exactly, so
// an id has one spelling.
var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// An IDKey makes key ids and recognises them, so that an invented id can be
// refused without reading the store. It is a secret that stays the same for the
// life of the store.
type IDKey [32]byte

// NewIDKey returns a random key.
func NewIDKey() IDKey {
	var k IDKey
	rand.Read(k[:]) // never fails
	return k
}

// Mint returns a new id for the mode: ck_live_ or ck_test_ and 32 characters
// of a-z and 2-7 that hold 128 random bits and a keyed checksum of 32 bits.
func (k IDKey) Mint(m Mode) string {
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
// false for an imported id of another system, which has no checksum of ours.
func (k IDKey) Check(id string) bool {
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

// Fingerprint returns 16 bytes that are equal for equal secrets and differ for
// others. Without the id key they reveal nothing about the secret.
func (k IDKey) Fingerprint(secret string) []byte {
	return k.derive("secret fingerprint", secret)[:16]
}

// derive returns the HMAC of the data for one of the key's uses.
func (k IDKey) derive(use, data string) []byte {
	mac := hmac.New(sha256.New, k[:])
	mac.Write([]byte("card-gateway " + use + "\x00"))
	mac.Write([]byte(data))
	return mac.Sum(nil)
}

// String hides the key.
func (k IDKey) String() string { return "[id key]" }

// GoString hides the key.
func (k IDKey) GoString() string { return "[id key]" }

// ModeOf returns the mode of a key by its id: [Test] for the prefix ck_test_,
// else [Live]. Imported ids of another system are live.
func ModeOf(id string) Mode {
	if strings.HasPrefix(id, testPrefix) {
		return Test
	}
	return Live
}

// maxIDLength bounds the length of a key id in bytes.
const maxIDLength = 128

// validID reports whether a key may have the id: 1 to 128 ASCII letters, digits
// and `. _ ~ : @ + = -`, but neither "." nor "..". An id with another character
// cannot be imported, because ids are part of URL paths of the admin API and of
// names of stored values.
func validID(id string) bool {
	return id != "" && len(id) <= maxIDLength && id != "." && id != ".." && strings.Trim(id, alphanumeric+"._~:@+=-") == ""
}

// alphanumeric are the characters that ids and tenants consist of besides some
// marks.
const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
