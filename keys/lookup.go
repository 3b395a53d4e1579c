package keys

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// Lookup returns the key of the id, from memory if possible. A key from memory
// may be older than the last change; Settle notices that by the revision.
//
// Errors are [store.ErrNotFound], [ErrLookupBudget], and [ErrForged], [keyring.ErrDamaged]
// or [keyring.ErrMasterKey] when the record cannot be used. Any other error means that the
// backend could not answer. Only [store.ErrNotFound] means that the key does not
// exist.
func (k *Service) Lookup(ctx context.Context, id string) (*auth.Key, error) {
	if key := k.cache.get(id); key != nil {
		return key, nil
	}
	return k.lookUp(ctx, id)
}

func (k *Service) lookUp(ctx context.Context, id string) (*auth.Key, error) {
	if !keyid.Valid(id) {
		return nil, store.ErrNotFound
	}
	ids, err := k.idKey(ctx)
	if err != nil {
		return nil, err
	}
	if k.local {
		return k.Fresh(ctx, id)
	}
	if err := k.admit(ids, id); err != nil {
		return nil, err
	}
	result, err := k.shareRead(ctx, "key "+id, func(ctx context.Context) (any, error) { return k.Fresh(ctx, id) })
	if err != nil {
		return nil, err
	}
	return result.(*auth.Key), nil
}

// flightTimeout is the longest time of a read that several requests wait for.
const flightTimeout = 5 * time.Second

// shareRead runs read once for all callers that need the same name at the same
// time, and returns its result to each of them. The read continues if a caller
// leaves. If a shared read found nothing, the value may have been written since
// it began, so the caller reads again.
func (k *Service) shareRead(ctx context.Context, name string, read func(context.Context) (any, error)) (any, error) {
	done := k.flights.DoChan(name, func() (any, error) {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), flightTimeout)
		defer cancel()
		return read(detached)
	})
	select {
	case r := <-done:
		if r.Shared && errors.Is(r.Err, store.ErrNotFound) {
			return read(ctx)
		}
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Fresh reads the key of the id from the backend and keeps it for
// [Service.Lookup]. If the key is missing or cannot be used, Fresh forgets it.
// The errors are those of Lookup, without [ErrLookupBudget].
func (k *Service) Fresh(ctx context.Context, id string) (*auth.Key, error) {
	if !keyid.Valid(id) {
		return nil, store.ErrNotFound
	}
	seen := k.opt.Versions.highest(id)
	r, err := k.get(ctx, id)
	if err == nil {
		r, err = k.authentic(ctx, r)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, ErrForged) {
		return nil, err // the backend could not answer
	}
	var key *auth.Key
	if err == nil {
		key, err = k.open(r)
	}
	if err != nil {
		k.cache.drop(id)
		if errors.Is(err, store.ErrNotFound) {
			k.opt.Versions.recordDeleted(id, seen)
		}
		return nil, err
	}
	k.cache.put(key)
	return key, nil
}

const cacheShards = 64

// keyCache keeps opened keys by id, up to a bound. To add a key, a full shard
// forgets one of its keys, no matter which. The forgotten key is read from
// the store at its next use. A key in the cache may be older than its record:
// see [Service.Lookup].
type keyCache struct {
	seed   maphash.Seed
	room   int // keys per shard
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	mu   sync.RWMutex
	keys map[string]*auth.Key
	_    [32]byte // so that the locks of two shards do not share a cache line
}

func newKeyCache(size int) *keyCache {
	c := &keyCache{seed: maphash.MakeSeed(), room: (size + cacheShards - 1) / cacheShards}
	for i := range c.shards {
		c.shards[i].keys = make(map[string]*auth.Key)
	}
	return c
}

func (c *keyCache) shard(id string) *cacheShard {
	return &c.shards[maphash.String(c.seed, id)%cacheShards]
}

// get returns the key, or nil. It does not allocate.
func (c *keyCache) get(id string) *auth.Key {
	s := c.shard(id)
	s.mu.RLock()
	key := s.keys[id]
	s.mu.RUnlock()
	return key
}

func (c *keyCache) put(key *auth.Key) {
	s := c.shard(key.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.keys[key.ID]; !known && len(s.keys) >= c.room {
		for id := range s.keys {
			delete(s.keys, id)
			break
		}
	}
	s.keys[key.ID] = key
}

func (c *keyCache) drop(id string) {
	s := c.shard(id)
	s.mu.Lock()
	delete(s.keys, id)
	s.mu.Unlock()
}

// open makes the key for the judge from a record. If any part of the record
// cannot be read, it returns [keyring.ErrMasterKey] or [keyring.ErrDamaged], wrapped,
// and no key.
func (k *Service) open(r *store.Record) (*auth.Key, error) {
	damaged := func(field string, err error) (*auth.Key, error) {
		return nil, fmt.Errorf("key %s: %s: %w: %w", r.ID, field, keyring.ErrDamaged, err)
	}
	key := &auth.Key{
		ID: r.ID, Revision: r.Revision, Tenant: r.Tenant, ExpiresAt: r.ExpiresAt, Disabled: r.Disabled,
		Lock: r.Lock, StampedAfter: r.StampedAfter, CustomerVariant: r.CustomerVariant,
		DebugUntil: fields.DebugUntil(r),
	}
	var err error
	if key.Scopes, err = auth.ParseScopes(r.Scopes); err != nil {
		return damaged("scopes", err)
	}
	if r.AllowedIPs != nil {
		if key.AllowedIPs, err = auth.ParseAllowedIPs(r.AllowedIPs); err != nil {
			return damaged("allowed_ips", err)
		}
	}
	if key.Limits, err = ratelimit.ParseOverrides(r.Limits); err != nil {
		return damaged("limits", err)
	}
	if err := fields.CheckVariant(r.CustomerVariant); err != nil {
		return damaged("customer_variant", err)
	}
	if r.Revision == "" {
		return damaged("revision", errors.New("missing"))
	}
	if key.Secrets, key.Retired, err = k.openSecrets(r); err != nil {
		return nil, fmt.Errorf("key %s: %w", r.ID, err)
	}
	return key, nil
}

// secretLabel is the associated data of a sealed secret. It ties the secret to
// its key and version, so that a ciphertext does not open in place of another. A
// key id holds no line feed, so that labels differ. retiredLabel is the
// associated data of a secret that a rotation has ended before its time.
func secretLabel(id string, version int) string {
	return "secret\n" + id + "\n" + strconv.Itoa(version)
}

func retiredLabel(id string, version int) string { return "retired " + secretLabel(id, version) }
