package keys

import (
	"hash/maphash"
	"sync"

	"github.com/card-gateway/card-gateway/auth"
)

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
