package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// The id key is kept in the store, sealed. The value named metaIDKey is written
// once and never replaced, so that gateways that start at the same time agree
// on it. When the master key is rotated, a second value holds the id key sealed
// under the new master key. Its name is metaIDKey and the tag of the new key.
//
// A store that gets its id key from this version is sealed from its first key: a mark
// behind the id key says so. Version 0.1 cannot read the longer value, so it, which
// drops seals, does not use such a store.
const metaIDKey = "id_key"

// A storeKey is the id key of a store.
type storeKey struct {
	keyid.Key
	sealed bool // no record of the store is accepted without a seal
}

// storeKeyMark is the byte behind the id key of a store that is sealed from its first key.
const storeKeyMark = 1

// bytes returns the stored form, before it is sealed.
func (s *storeKey) bytes() []byte {
	if s.sealed {
		return append(s.Key[:], storeKeyMark)
	}
	return s.Key[:]
}

// parseStoreKey returns the key of what bytes has returned.
func parseStoreKey(raw []byte) (*storeKey, error) {
	const size = len(keyid.Key{})
	if len(raw) != size && (len(raw) != size+1 || raw[size] != storeKeyMark) {
		return nil, fmt.Errorf("the key that checks ids is %d bytes long, in a form that this gateway does not know: was it made by a newer one?: %w", len(raw), keyring.ErrDamaged)
	}
	return &storeKey{keyid.Key(raw[:size]), len(raw) > size}, nil
}

// TestMasterKey returns nil if the master keys open the store. It writes
// nothing. Any master key opens an empty store. An error is [keyring.ErrMasterKey] or
// [keyring.ErrDamaged], wrapped; any other error means that the backend could not
// answer.
func (k *Service) TestMasterKey(ctx context.Context) error {
	_, _, err := k.readIDKey(ctx, k.backend)
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

// testSecrets reads some records and returns keyring.ErrMasterKey when none of their
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
			if !errors.Is(err, keyring.ErrMasterKey) {
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

var errWrongMasterKey = fmt.Errorf("the master key does not open this store (%w): give the key that the store was sealed with last; to rotate, write the new key on the first line and the old one below it", keyring.ErrMasterKey)

// idKey returns the key that makes and checks ids. The first call loads it.
func (k *Service) idKey(ctx context.Context) (*storeKey, error) {
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
	return result.(*storeKey), nil
}

// loadIDKey returns the id key from the store, and makes one if there is none. It does
// not ask for records: one that is there without an id key may be forged.
// If another master key opened it, loadIDKey also stores it sealed under the
// first one.
func (k *Service) loadIDKey(ctx context.Context) (*storeKey, error) {
	ids, index, err := k.readIDKey(ctx, k.backend)
	if errors.Is(err, store.ErrNotFound) {
		made := storeKey{keyid.NewKey(), true}
		if _, err := k.backend.PutMeta(ctx, metaIDKey, k.ring.Seal(made.bytes(), metaIDKey)); err != nil {
			return nil, fmt.Errorf("storing the key that checks ids: %w", err)
		}
		ids, index, err = k.readIDKey(ctx, k.backend)
	}
	if err == nil {
		err = k.testSecrets(ctx)
	}
	if err != nil || index == 0 {
		return ids, err
	}
	if _, err := k.backend.PutMeta(ctx, metaIDKey+":"+k.ring.Tag(0), k.ring.Seal(ids.bytes(), metaIDKey)); err != nil {
		return nil, fmt.Errorf("storing the key that checks ids under the first master key: %w", err)
	}
	return ids, nil
}

// readIDKey returns the id key of a backend, and the index of the master key that
// opened it. ErrNotFound when there is none.
func (k *Service) readIDKey(ctx context.Context, from store.Backend) (*storeKey, int, error) {
	names := make([]string, 0, k.ring.Len()+1)
	for i := range k.ring.Len() {
		names = append(names, metaIDKey+":"+k.ring.Tag(i))
	}
	for _, name := range append(names, metaIDKey) {
		sealed, err := from.Meta(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("reading the key that checks ids: %w", err)
		}
		raw, index, err := k.ring.Open(sealed, metaIDKey)
		switch {
		case errors.Is(err, keyring.ErrMasterKey):
			return nil, 0, errWrongMasterKey
		case err != nil:
			return nil, 0, fmt.Errorf("the key that checks ids cannot be opened: %w", err)
		}
		ids, err := parseStoreKey(raw)
		return ids, index, err
	}
	return nil, 0, store.ErrNotFound
}
