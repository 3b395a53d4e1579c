package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/card-gateway/card-gateway/store"
)

// The id key is stored sealed. The value named metaIDKey is written once and
// never replaced, so that gateways that start at the same time have the same.
// When the master key is rotated, a copy is written, sealed under the new one.
// Its name is the same with the tag of the new master key.
const metaIDKey = "id_key"

// TestMasterKey reports whether the master keys open the store, without
// writing anything. A store that holds nothing yet is opened by any. The
// error is [ErrMasterKey] or [ErrDamaged], wrapped; any other means that the
// backend could not answer.
func (k *Service) TestMasterKey(ctx context.Context) error {
	_, _, err := k.readIDKey(ctx, k.backend, metaIDKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return k.testSecrets(ctx)
}

// testedSecrets is how many records are looked at to find a master key that
// was right once and is outdated.
const testedSecrets = 50

// testSecrets returns ErrMasterKey when none of the secrets of some records is
// sealed under a key of the ring: the id key still opens under the master key
// that it was first sealed with, after all else was sealed under another.
func (k *Service) testSecrets(ctx context.Context) error {
	records, _, err := k.backend.List(ctx, "", testedSecrets)
	if err != nil {
		return fmt.Errorf("reading keys to test the master key: %w", err)
	}
	foreign := 0
	for _, r := range records {
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

var errWrongMasterKey = fmt.Errorf("the master key does not open this store (%w): give the key that the store was sealed with last; to rotate, the new key stands on the first line and the old one below it", ErrMasterKey)

// idKey returns the key that makes and checks ids, loading it at first.
func (k *Service) idKey(ctx context.Context) (*IDKey, error) {
	if ids := k.ids.Load(); ids != nil {
		return ids, nil
	}
	result, err := k.shared(ctx, metaIDKey, func(ctx context.Context) (any, error) {
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

// loadIDKey reads the id key, makes it if there is none, and sees to it that
// it is stored under the first master key too.
func (k *Service) loadIDKey(ctx context.Context) (*IDKey, error) {
	ids, index, err := k.readIDKey(ctx, k.backend, metaIDKey)
	if errors.Is(err, store.ErrNotFound) {
		made := NewIDKey()
		if _, err := k.backend.PutMeta(ctx, metaIDKey, k.ring.Seal(made[:], metaIDKey)); err != nil {
			return nil, fmt.Errorf("storing the key that checks ids: %w", err)
		}
		ids, index, err = k.readIDKey(ctx, k.backend, metaIDKey)
	}
	if err == nil {
		err = k.testSecrets(ctx)
	}
	if err != nil {
		return nil, err
	}
	return ids, k.sealIDKeyAnew(ctx, metaIDKey, ids, index)
}

// sealIDKeyAnew writes a copy of an id key, sealed under the first master key,
// unless the index shows that it is sealed so.
func (k *Service) sealIDKeyAnew(ctx context.Context, name string, ids *IDKey, index int) error {
	if index == 0 {
		return nil
	}
	if _, err := k.backend.PutMeta(ctx, name+":"+k.ring.tagHex(0), k.ring.Seal(ids[:], name)); err != nil {
		return fmt.Errorf("storing the key that checks ids under the first master key: %w", err)
	}
	return nil
}

// readIDKey returns the id key that is stored in a backend under the name, and
// the index of the master key that opened it. ErrNotFound when it has none.
func (k *Service) readIDKey(ctx context.Context, from store.Backend, as string) (*IDKey, int, error) {
	names := make([]string, 0, k.ring.Len()+1)
	for i := range k.ring.Len() {
		names = append(names, as+":"+k.ring.tagHex(i))
	}
	for _, name := range append(names, as) {
		sealed, err := from.Meta(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("reading the key that checks ids: %w", err)
		}
		raw, index, err := k.ring.Open(sealed, as)
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
