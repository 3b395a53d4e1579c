package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// knownIDs recognises the ids of keys without reading a key. An
// id is known by the checksum of the store's own id key, by that of an id key
// that a copy brought along, or, when it has none of these checksums, by its
// hash. Hashes are only added: the id of a deleted key stays known until the
// process ends, and is looked up like an id with a checksum.
type knownIDs struct {
	refreshing sync.Mutex // held while the store is read

	mu      sync.RWMutex
	copied  []*IDKey
	seed    maphash.Seed
	hashes  map[uint64]struct{} // 8 bytes for each id
	change  []byte              // the value of metaIDChange when the ids were read
	loaded  bool
	read    time.Time // when change was last compared
	retryAt time.Time // after a reading that failed
}

const (
	// metaIDChange names a value that changes with each import and copy.
	metaIDChange = "id_change"
	// metaCopiedIDKey names, with a number from 1 behind it, the id keys that
	// copies brought along. They are sealed and never replaced.
	metaCopiedIDKey = "copied_id_key:"
	// maxCopiedIDKeys bounds them. Ids of further stores are known by hash.
	maxCopiedIDKeys = 8

	// idsTrusted is how long after a comparison an id of our form is refused
	// because it is not known.
	idsTrusted = 2 * time.Second
	// idsSettled is how long after an announcement every gateway has seen it,
	// or trusts nothing that it has seen before.
	idsSettled = idsTrusted + idsTrusted/10
	// idsRetry is how long after a failed reading of all ids the next begins.
	idsRetry = 30 * time.Second
)

func newKnownIDs() *knownIDs {
	return &knownIDs{seed: maphash.MakeSeed(), hashes: make(map[uint64]struct{})}
}

// has reports whether the id is known otherwise than by the store's own id key.
func (n *knownIDs) has(id string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, listed := n.hashes[maphash.String(n.seed, id)]
	return listed || n.checks(id)
}

// checks reports whether the id has the checksum of an id key of a copy. n.mu
// is held.
func (n *knownIDs) checks(id string) bool {
	return slices.ContainsFunc(n.copied, func(k *IDKey) bool { return k.Check(id) })
}

// complete reports whether an id of our form that is not known belongs to no
// key at now.
func (n *knownIDs) complete(now time.Time) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.loaded && now.Sub(n.read) < idsTrusted
}

// learn makes ids known, unless the store's own id key knows them.
func (n *knownIDs) learn(own *IDKey, ids ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if !own.Check(id) && !n.checks(id) {
			n.hashes[maphash.String(n.seed, id)] = struct{}{}
		}
	}
}

// admit decides whether an id may be looked up. Ids of our form with a wrong
// checksum are invented: ErrNotFound. Others that are not known share a budget:
// ErrLookupBudget.
func (k *Service) admit(own *IDKey, id string) error {
	if own.Check(id) || k.known.has(id) {
		return nil
	}
	now := k.opt.Clock()
	if _, _, ours := splitID(id); ours && k.known.complete(now) {
		return store.ErrNotFound
	}
	if !k.lookups.AllowN(now, 1) {
		return ErrLookupBudget
	}
	return nil
}

// RefreshIDs learns the ids that other gateways have imported or copied since
// the last call. Call it about once a second. It reads one small value, and the
// ids of all keys only when that has changed. Until then this gateway looks such
// ids up under the budget of unknown ones. For a backend that answers from memory
// RefreshIDs does nothing. An error means that the backend could not answer.
func (k *Service) RefreshIDs(ctx context.Context) error {
	if k.local {
		return nil
	}
	own, err := k.idKey(ctx)
	if err != nil {
		return err
	}
	n := k.known
	n.refreshing.Lock()
	defer n.refreshing.Unlock()
	now := k.opt.Clock()
	change, err := k.backend.Meta(ctx, metaIDChange)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if !n.loaded || !bytes.Equal(change, n.change) {
		if now.Before(n.retryAt) {
			return nil
		}
		if err := k.readIDs(ctx, own); err != nil {
			n.retryAt = now.Add(idsRetry)
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loaded, n.change, n.read = true, change, now
	return nil
}

// readIDs makes the ids of all keys known.
func (k *Service) readIDs(ctx context.Context, own *IDKey) error {
	copied, err := k.copiedIDKeys(ctx, k.backend)
	if err != nil {
		return err
	}
	k.known.mu.Lock()
	k.known.copied = copied
	k.known.mu.Unlock()
	return each(ctx, k.backend, func(d *store.DamagedError) { k.known.learn(own, d.ID) }, func(r *store.Record) error {
		k.known.learn(own, r.ID)
		return nil
	})
}

// copiedIDKeys returns the id keys that copies have brought into a store. One
// that cannot be opened is left out: its ids are known by hash.
func (k *Service) copiedIDKeys(ctx context.Context, from store.Backend) ([]*IDKey, error) {
	var copied []*IDKey
	for number := range maxCopiedIDKeys {
		name := metaCopiedIDKey + strconv.Itoa(number+1)
		ids, index, err := k.readIDKey(ctx, from, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return copied, nil
		case errors.Is(err, ErrMasterKey) || errors.Is(err, ErrDamaged):
			continue
		case err != nil:
			return nil, err
		}
		if from == k.backend {
			if err := k.sealIDKeyAnew(ctx, name, ids, index); err != nil {
				return nil, err
			}
		}
		copied = append(copied, ids)
	}
	return copied, nil
}

// bringIDKeys copies the id keys of another store, so that the checksums of its
// ids are known here.
func (k *Service) bringIDKeys(ctx context.Context, own *IDKey, from store.Backend) error {
	theirs, err := k.copiedIDKeys(ctx, from)
	if err != nil {
		return err
	}
	ids, _, err := k.readIDKey(ctx, from, metaIDKey)
	if err == nil {
		theirs = append(theirs, ids)
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	here, err := k.copiedIDKeys(ctx, k.backend)
	if err != nil {
		return err
	}
	here = append(here, own)
	stored := false
	for _, ids := range theirs {
		if slices.ContainsFunc(here, func(known *IDKey) bool { return *known == *ids }) {
			continue
		}
		if err := k.storeCopiedIDKey(ctx, ids); err != nil {
			return err
		}
		stored = true
	}
	if !stored || k.local {
		return nil
	}
	if err := k.announceIDs(ctx); err != nil {
		return err
	}
	if err := k.RefreshIDs(ctx); err != nil {
		return err
	}
	return k.awaitOthers(ctx)
}

// publishIDs makes new ids known, here and on the other gateways. When it
// returns nil, no gateway refuses one of them as invented.
func (k *Service) publishIDs(ctx context.Context, own *IDKey, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	refusable := slices.ContainsFunc(ids, func(id string) bool {
		_, _, ours := splitID(id)
		return ours && !own.Check(id) && !k.known.has(id)
	})
	k.known.learn(own, ids...)
	err := k.announceIDs(ctx)
	if !refusable || k.local {
		return nil // the other gateways look the ids up until they know them, at the latest after their next census
	}
	if err == nil {
		err = k.awaitOthers(ctx)
	}
	if err != nil {
		return fmt.Errorf("the keys are stored, but other gateways may refuse them for half a minute: %w", err)
	}
	return nil
}

// awaitOthers returns nil when all other gateways know the announced ids.
func (k *Service) awaitOthers(ctx context.Context) error {
	select {
	case <-k.opt.After(idsSettled):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// storeCopiedIDKey stores an id key under the first number that is free.
func (k *Service) storeCopiedIDKey(ctx context.Context, ids *IDKey) error {
	for number := range maxCopiedIDKeys {
		name := metaCopiedIDKey + strconv.Itoa(number+1)
		sealed := k.ring.Seal(ids[:], name)
		stored, err := k.backend.PutMeta(ctx, name, sealed)
		if err != nil || bytes.Equal(stored, sealed) {
			return err
		}
	}
	return nil
}

// announceIDs makes the other gateways read the ids again. Call it after new ids
// are written. When it returns nil, the stored value was written after these ids,
// even if two gateways announce at the same time: each deletes only the value
// that it has read, and writes only if there is none.
func (k *Service) announceIDs(ctx context.Context) error {
	if k.local {
		return nil
	}
	before, err := k.backend.Meta(ctx, metaIDChange)
	switch {
	case err == nil:
		err = k.backend.DeleteMeta(ctx, metaIDChange, before)
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}
	if err == nil {
		_, err = k.backend.PutMeta(ctx, metaIDChange, []byte(NewRevision()))
	}
	return err
}
