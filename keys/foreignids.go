package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/store"
)

// foreignIDs are the hashes of the ids that have no checksum of the store's own id
// key, because they were imported or copied: 8 bytes for each. Hashes are only added:
// the id of a deleted key stays known until the process ends, and is looked up like
// an id with a checksum.
type foreignIDs struct {
	refreshing sync.Mutex // held while the store is read

	mu      sync.RWMutex
	seed    maphash.Seed
	hashes  map[uint64]struct{}
	change  []byte // the value of metaIDChange when the ids were read
	loaded  bool
	read    time.Time // when change was last compared
	retryAt time.Time // after a reading that failed
}

const (
	// metaIDChange names a value that changes with each import and copy.
	metaIDChange = "id_change"

	// idsTrusted is how long after a comparison an id of our form is refused
	// because it is not known.
	idsTrusted = 2 * time.Second
	// idsSettled is how long after an announcement every gateway has seen it,
	// or trusts nothing that it has seen before.
	idsSettled = idsTrusted + idsTrusted/10
	// idsRetry is how long after a failed reading of all ids the next begins.
	idsRetry = 30 * time.Second
)

// has reports whether the id is one of them.
func (n *foreignIDs) has(id string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	_, found := n.hashes[maphash.String(n.seed, id)]
	return found
}

// complete reports whether an id of our form that is not known belongs to no
// key at now.
func (n *foreignIDs) complete(now time.Time) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.loaded && now.Sub(n.read) < idsTrusted
}

// learn adds the ids that have no checksum of the store's own id key.
func (n *foreignIDs) learn(own *storeKey, ids ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if !own.Check(id) {
			n.hashes[maphash.String(n.seed, id)] = struct{}{}
		}
	}
}

// admit decides whether an id may be looked up. Ids of our form with a wrong
// checksum are invented: ErrNotFound. Others that are not known share a budget:
// ErrLookupBudget.
func (k *Service) admit(own *storeKey, id string) error {
	if own.Check(id) || k.foreign.has(id) {
		return nil
	}
	now := k.opt.Clock()
	if keyid.WellFormed(id) && k.foreign.complete(now) {
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
	n := k.foreign
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
		learn := func(id string) { n.learn(own, id) }
		if err := eachRecord(ctx, k.backend, func(d *store.DamagedError) { learn(d.ID) }, func(r *store.Record) error { learn(r.ID); return nil }); err != nil {
			n.retryAt = now.Add(idsRetry)
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loaded, n.change, n.read = true, change, now
	return nil
}

// publishIDs makes new ids known, here and on the other gateways. When it
// returns nil, no gateway refuses one of them as invented.
func (k *Service) publishIDs(ctx context.Context, own *storeKey, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	refusable := slices.ContainsFunc(ids, func(id string) bool {
		return keyid.WellFormed(id) && !own.Check(id) && !k.foreign.has(id)
	})
	k.foreign.learn(own, ids...)
	err := k.announceIDs(ctx)
	if !refusable || k.local {
		return nil // the other gateways look the ids up until they know them, at the latest after their next census
	}
	if err == nil {
		select { // until all other gateways have read them
		case <-k.opt.After(idsSettled):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("the keys are stored, but other gateways may refuse them for half a minute: %w", err)
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
