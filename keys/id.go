package keys

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"strings"
)

// Mode is whether a key is live or for tests. The prefix of its id shows it.
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
	idText     = 32 // characters that these make
)

// lowerBase32 is base32 in lower case; 20 bytes fill 32 characters exactly, so
// an id has one spelling.
var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// An IDKey makes key ids and recognises them, so that an invented id is refused
// without a look-up. It is secret, and never changes during the life of the
// store.
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

// Check reports in constant time whether Mint made the id with this key. An id
// that was imported has no checksum of ours; Check is false for it.
func (k IDKey) Check(id string) bool {
	prefix, raw, ok := splitID(id)
	if !ok {
		return false
	}
	want := k.derive("key id", prefix+string(raw[:idRandom]))
	return subtle.ConstantTimeCompare(want[:idChecksum], raw[idRandom:]) == 1
}

// splitID returns the prefix and the bytes of an id that has the form of those
// that Mint makes. It does not check the checksum.
func splitID(id string) (prefix string, raw []byte, ok bool) {
	if !strings.HasPrefix(id, livePrefix) && !strings.HasPrefix(id, testPrefix) || len(id) != len(livePrefix)+idText {
		return "", nil, false
	}
	raw, err := lowerBase32.DecodeString(id[len(livePrefix):])
	if err != nil || len(raw) != idRandom+idChecksum {
		return "", nil, false // the decoder skips line ends, which makes it short
	}
	return id[:len(livePrefix)], raw, true
}

// Fingerprint returns 16 bytes that are the same for equal secrets and differ
// for others. Without the key they reveal nothing of the secret.
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

// ModeOf returns the mode of an id: [Test] for ck_test_, else [Live],
// also for the ids of an earlier system.
func ModeOf(id string) Mode {
	if strings.HasPrefix(id, testPrefix) {
		return Test
	}
	return Live
}

// maxIDLength bounds the length of a key id in bytes.
const maxIDLength = 128

// validID reports whether a key of this id can exist: 1 to 128 letters, digits
// and `. _ ~ : @ + = -`, neither "." nor "..". Ids of earlier systems that
// hold anything else cannot be imported: ids are part of URL paths of the admin
// API and of names of stored values.
func validID(id string) bool {
	if id == "" || len(id) > maxIDLength || id == "." || id == ".." {
		return false
	}
	for i := range len(id) {
		if !idByte(id[i]) {
			return false
		}
	}
	return true
}

func idByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	switch c {
	case '.', '_', '~', ':', '@', '+', '=', '-':
		return true
	}
	return false
}
