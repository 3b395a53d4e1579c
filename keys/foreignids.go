package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/store"
)

// foreignIDs are the hashes of the ids that have no checksum of the store's own id
// key, because they were imported or copied: 8 bytes for each. Hashes are only added:
// the id of a deleted key stays known until the process ends, and is looked up like
// an id with a checksum.
type foreignIDs struct {
	following sync.Mutex // held while changes are read; it guards mark and announced
	mark      string     // of the changes that were read
	announced []byte     // the value of metaIDChange that was read

	mu      sync.RWMutex
	seed    maphash.Seed
	hashes  map[uint64]struct{}
	read    atomic.Int64 // when changes were last read, in Unix nanoseconds
	gaps    atomic.Int64 // how often changes may have been missed
	covered atomic.Int64 // the gaps before the last reading of all keys
}

const (
	// metaIDChange names a value that changes with each import and copy. Gateways of
	// the version before know no feed of changes: they read all ids when it changes.
	metaIDChange = "id_change"
	// inFeed begins a value of a gateway whose changes are in the feed.
	inFeed = "feed:"

	// idsTrusted is how long after a reading of the changes an id of our form is
	// refused because it is not known.
	idsTrusted = 2 * time.Second
	// idsSettled is how long after an import every gateway has seen it, or trusts
	// nothing that it has seen before.
	idsSettled = idsTrusted + idsTrusted/10
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
	return !n.missed() && now.Sub(time.Unix(0, n.read.Load())) < idsTrusted
}

// missed reports whether changes may have been missed since all keys were read.
func (n *foreignIDs) missed() bool { return n.gaps.Load() != n.covered.Load() }

// learn adds the ids that have no checksum of the store's own id key.
func (n *foreignIDs) learn(own *storeKey, ids ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if own != nil && !own.Check(id) {
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

// FollowChanges learns what other gateways have changed since the last call: the
// document versions of records, and ids that were imported or copied. Call it about
// once a second. It reads the changed records. If it may have missed changes,
// [Service.Recount] reads all. Until then this gateway looks unknown ids up under their
// budget. For a backend that answers from memory FollowChanges does nothing. An error
// means that the backend could not answer.
func (k *Service) FollowChanges(ctx context.Context) error {
	if k.local {
		return nil
	}
	own, err := k.idKey(ctx)
	if err != nil {
		return err
	}
	n := k.foreign
	n.following.Lock()
	defer n.following.Unlock()
	now := k.opt.Clock()
	announced, err := k.optionalMeta(ctx, metaIDChange)
	if err != nil {
		return err
	}
	missed := !bytes.Equal(announced, n.announced) && !bytes.HasPrefix(announced, []byte(inFeed))
	for {
		changes, err := k.backend.Changes(ctx, n.mark)
		if err != nil {
			return err
		}
		for _, id := range changes.IDs {
			n.learn(own, id)
			seen := k.opt.Versions.highest(id)
			switch _, err := k.Show(ctx, id); {
			case errors.Is(err, store.ErrNotFound):
				k.opt.Versions.recordDeleted(id, seen)
			case err != nil:
				return err
			}
		}
		n.mark, missed = changes.Mark, missed || changes.Gap
		if len(changes.IDs) == 0 {
			break
		}
	}
	if missed {
		n.gaps.Add(1)
	}
	n.announced = announced
	n.read.Store(now.UnixNano())
	return nil
}

// publishIDs makes new ids known, here and on the other gateways. When it
// returns nil, no gateway refuses one of them as invented: their changes are in the
// feed, and gateways of the version before read the ids again after another value.
func (k *Service) publishIDs(ctx context.Context, own *storeKey, ids ...string) error {
	if len(ids) == 0 || k.local {
		return nil
	}
	refusable := slices.ContainsFunc(ids, func(id string) bool {
		return keyid.WellFormed(id) && !own.Check(id) && !k.foreign.has(id)
	})
	k.foreign.learn(own, ids...)
	before, err := k.optionalMeta(ctx, metaIDChange)
	if err == nil {
		_, err = k.replaceMeta(ctx, metaIDChange, before, []byte(inFeed+NewRevision()))
	}
	if !refusable {
		return nil // the other gateways look the ids up until they know them
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

// optionalMeta returns a named value of the backend, or nil if there is none.
func (k *Service) optionalMeta(ctx context.Context, name string) ([]byte, error) {
	value, err := k.backend.Meta(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return value, err
}

// replaceMeta writes a named value in place of the one before; nil: there was none. It
// returns what is stored then: the value of another gateway that has replaced the same
// one first.
func (k *Service) replaceMeta(ctx context.Context, name string, before, value []byte) ([]byte, error) {
	if before != nil {
		if err := k.backend.DeleteMeta(ctx, name, before); err != nil {
			return nil, err
		}
	}
	return k.backend.PutMeta(ctx, name, value)
}
