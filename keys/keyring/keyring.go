// Package keyring seals the secrets and the records of keys with master keys.
//
// [Parse] reads the master keys. [Ring.Seal] and [Ring.Open] encrypt values, such as
// secrets, so that nobody can read them without a master key. [Ring.SealRecord] and
// [Ring.CheckRecord], in record.go, authenticate records, so that nobody can change
// them without one.
//
// Begin with [Ring].
package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Errors of opening what is sealed.
var (
	// ErrMasterKey means that a value is sealed under a master key that is not
	// in the ring.
	ErrMasterKey = errors.New("sealed under a master key that was not given")
	// ErrDamaged means that a stored value was changed after it was written, or
	// belongs to another key.
	ErrDamaged = errors.New("the stored value is damaged or belongs to another key")
)

const (
	masterKeySize    = 32
	maxMasterKeys    = 16
	sealedVersion    = 1
	masterTagSize    = 4
	sealedHeaderSize = 1 + masterTagSize
)

// A Ring holds the master keys, which seal secrets at rest with
// AES-256-GCM. The first key seals; every key opens. A Ring is immutable.
type Ring struct {
	keys []masterKey
}

type masterKey struct {
	line int // in the text
	aead cipher.AEAD
	// tag is stored with a value and names the key that sealed it. It is
	// derived from the key one-way.
	tag [masterTagSize]byte
	// recordKey is the key that seals records. It is derived from the master key
	// one-way.
	recordKey []byte
}

// Parse returns the ring of the master keys in the text, one on each
// line: 32 bytes in standard base64. Blank lines and white space around a key
// are allowed. An error names the wrong line by its number and repeats nothing
// of it.
func Parse(text string) (*Ring, error) {
	ring := &Ring{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(raw) != masterKeySize {
			return nil, fmt.Errorf("master key, line %d: want 32 bytes in standard base64 (44 characters), as `openssl rand -base64 32` makes them", i+1)
		}
		if bytes.Count(raw, raw[:1]) == len(raw) { // as in a file of zeros
			return nil, fmt.Errorf("master key, line %d: all its bytes are equal, so it is not random; make one with `openssl rand -base64 32`", i+1)
		}
		key, err := newMasterKey(raw)
		if err != nil {
			return nil, fmt.Errorf("master key, line %d: %w", i+1, err)
		}
		key.line = i + 1
		for _, before := range ring.keys {
			if subtle.ConstantTimeCompare(key.recordKey, before.recordKey) == 1 {
				return nil, fmt.Errorf("master key, line %d: the same key as on line %d; to rotate, write the new key on the first line and the old one below it", i+1, before.line)
			}
		}
		ring.keys = append(ring.keys, key)
	}
	switch {
	case len(ring.keys) == 0:
		return nil, errors.New("the master key is empty: want 32 bytes in standard base64, as `openssl rand -base64 32` makes them")
	case len(ring.keys) > maxMasterKeys:
		return nil, fmt.Errorf("%d master keys are given; at most %d are allowed", len(ring.keys), maxMasterKeys)
	}
	return ring, nil
}

func newMasterKey(raw []byte) (masterKey, error) {
	block, err := aes.NewCipher(raw)
	if err != nil {
		return masterKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return masterKey{}, err
	}
	key := masterKey{aead: aead}
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte("card-gateway master key tag"))
	copy(key.tag[:], mac.Sum(nil))
	key.recordKey, err = hkdf.Key(sha256.New, raw, nil, recordSealUse, sha256.Size)
	return key, err
}

// Len returns the number of master keys.
func (k *Ring) Len() int { return len(k.keys) }

// Seal returns plaintext encrypted under the first master key. [Ring.Open]
// needs the same associated string. The result is a version byte, the tag of the
// master key, a random nonce of 12 bytes, and the ciphertext with its
// authentication tag of 16 bytes.
func (k *Ring) Seal(plaintext []byte, associated string) []byte {
	key := &k.keys[0]
	out := make([]byte, sealedHeaderSize, sealedHeaderSize+key.aead.Overhead()+len(plaintext))
	out[0] = sealedVersion
	copy(out[1:], key.tag[:])
	return key.aead.Seal(out, nil, plaintext, []byte(associated))
}

// Open decrypts a value that Seal made. It also returns the index of the master
// key that opened it. An index other than 0 means that the value should be
// sealed again, under the first key. Errors are [ErrMasterKey] and [ErrDamaged],
// wrapped.
func (k *Ring) Open(sealed []byte, associated string) (plaintext []byte, index int, err error) {
	if len(sealed) < sealedHeaderSize {
		return nil, 0, fmt.Errorf("%w: it is %d bytes long", ErrDamaged, len(sealed))
	}
	if sealed[0] != sealedVersion {
		return nil, 0, fmt.Errorf("%w: sealed in version %d of the format, this gateway knows version %d", ErrDamaged, sealed[0], sealedVersion)
	}
	given := false
	for i := range k.keys {
		key := &k.keys[i]
		if [masterTagSize]byte(sealed[1:sealedHeaderSize]) != key.tag {
			continue
		}
		given = true
		plaintext, err := key.aead.Open(nil, nil, sealed[sealedHeaderSize:], []byte(associated))
		if err == nil {
			return plaintext, i, nil
		}
	}
	if given {
		return nil, 0, ErrDamaged
	}
	return nil, 0, ErrMasterKey
}

// Tag returns the tag of the master key with the index, in hex.
func (k *Ring) Tag(index int) string { return hex.EncodeToString(k.keys[index].tag[:]) }

// Sealer returns the index of the master key that has sealed a value, without
// opening it, and Len for one that was not given.
func (k *Ring) Sealer(sealed []byte) int {
	for i := range k.keys {
		if len(sealed) >= sealedHeaderSize && [masterTagSize]byte(sealed[1:sealedHeaderSize]) == k.keys[i].tag {
			return i
		}
	}
	return len(k.keys)
}
