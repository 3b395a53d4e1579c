package keys

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/card-gateway/card-gateway/store"
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
// false for an imported id of another system, because that has no checksum.
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

// alphanumeric are the letters and digits that ids and tenants may contain, next
// to some marks.
const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// The id key is kept in the store, sealed. The value named metaIDKey is written
// once and never replaced, so that gateways that start at the same time agree
// on it. When the master key is rotated, a second value holds the id key sealed
// under the new master key. Its name is metaIDKey and the tag of the new key.
const metaIDKey = "id_key"

// TestMasterKey returns nil if the master keys open the store. It writes
// nothing. Any master key opens an empty store. An error is [ErrMasterKey] or
// [ErrDamaged], wrapped; any other error means that the backend could not
// answer.
func (k *Service) TestMasterKey(ctx context.Context) error {
	_, _, err := k.readIDKey(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return k.testSecrets(ctx)
}

// testedSecrets is the number of records that testSecrets reads.
const testedSecrets = 50

// testSecrets reads some records and returns ErrMasterKey when none of their
// secrets is sealed under a key of the ring. It finds an outdated master key:
// the one that first sealed the id key still opens it after a rotation, but no
// longer opens the secrets.
func (k *Service) testSecrets(ctx context.Context) error {
	page, err := k.backend.List(ctx, "", testedSecrets)
	if err != nil {
		return fmt.Errorf("reading keys to test the master key: %w", err)
	}
	foreign := 0
	for _, r := range page.Records {
		for i := range r.Secrets {
			_, _, err := k.ring.Open(r.Secrets[i].Sealed, secretLabel(r.ID, r.Secrets[i].Version))
			if !errors.Is(err, ErrMasterKey) {
				return nil
			}
			foreign++
		}
	}
	if foreign > 0 {
		return errWrongMasterKey
	}
	return nil
}

var errWrongMasterKey = fmt.Errorf("the master key does not open this store (%w): give the key that the store was sealed with last; to rotate, write the new key on the first line and the old one below it", ErrMasterKey)

// idKey returns the key that makes and checks ids. The first call loads it.
func (k *Service) idKey(ctx context.Context) (*IDKey, error) {
	if ids := k.ids.Load(); ids != nil {
		return ids, nil
	}
	result, err := k.shareRead(ctx, metaIDKey, func(ctx context.Context) (any, error) {
		ids, err := k.loadIDKey(ctx)
		if err == nil && k.ids.CompareAndSwap(nil, ids) && k.ring.Len() > 1 {
			k.background(k.reseal)
		}
		return ids, err
	})
	if err != nil {
		return nil, err
	}
	return result.(*IDKey), nil
}

// loadIDKey returns the id key from the store, and makes one if there is none.
// If another master key opened it, loadIDKey also stores it sealed under the
// first one.
func (k *Service) loadIDKey(ctx context.Context) (*IDKey, error) {
	ids, index, err := k.readIDKey(ctx)
	if errors.Is(err, store.ErrNotFound) {
		made := NewIDKey()
		if _, err := k.backend.PutMeta(ctx, metaIDKey, k.ring.Seal(made[:], metaIDKey)); err != nil {
			return nil, fmt.Errorf("storing the key that checks ids: %w", err)
		}
		ids, index, err = k.readIDKey(ctx)
	}
	if err == nil {
		err = k.testSecrets(ctx)
	}
	if err != nil || index == 0 {
		return ids, err
	}
	if _, err := k.backend.PutMeta(ctx, metaIDKey+":"+k.ring.tagHex(0), k.ring.Seal(ids[:], metaIDKey)); err != nil {
		return nil, fmt.Errorf("storing the key that checks ids under the first master key: %w", err)
	}
	return ids, nil
}

// readIDKey returns the stored id key, and the index of the master key that opened
// it. ErrNotFound when there is none.
func (k *Service) readIDKey(ctx context.Context) (*IDKey, int, error) {
	names := make([]string, 0, k.ring.Len()+1)
	for i := range k.ring.Len() {
		names = append(names, metaIDKey+":"+k.ring.tagHex(i))
	}
	for _, name := range append(names, metaIDKey) {
		sealed, err := k.backend.Meta(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("reading the key that checks ids: %w", err)
		}
		raw, index, err := k.ring.Open(sealed, metaIDKey)
		switch {
		case errors.Is(err, ErrMasterKey):
			return nil, 0, errWrongMasterKey
		case err != nil:
			return nil, 0, fmt.Errorf("the key that checks ids cannot be opened: %w", err)
		case len(raw) != len(IDKey{}):
			return nil, 0, fmt.Errorf("the key that checks ids is %d bytes long: %w", len(raw), ErrDamaged)
		}
		ids := IDKey(raw)
		return &ids, index, nil
	}
	return nil, 0, store.ErrNotFound
}
