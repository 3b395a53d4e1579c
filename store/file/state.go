package file

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// A state is everything that the store remembers, in memory. Locks are taken
// in this order: keeping, changes, a key's, a shard's or the journal's.
type state struct {
	opt     Options
	path    string   // of the key file
	journal *journal // nil: read-only, nothing is settled
	limits  steadyClock

	seed   maphash.Seed
	shards [shardCount]shard

	// forgotten is the latest timestamp, in Unix seconds, of a nonce that was
	// dropped. A request stamped up to it might be a repetition: it is under
	// the replay floor. Nonces outlive their requests' window, so this is never seen
	// while the clock goes forward; it is what makes a clock that jumps ahead
	// and back, or a window that is made wider, harmless.
	forgotten atomic.Int64
	// floor is the moment, in nanoseconds of Unix time, up to which nonces may
	// have been lost; 0: never. See the replay floor in the contract.
	floor atomic.Int64
	// live is the number of nonces in memory.
	live      atomic.Int64
	lastSweep atomic.Int64 // Unix seconds of the last sweep for want of room

	// changes guards what follows, and the key file.
	changes  sync.Mutex
	closed   bool
	document []byte // the buffer in which the key file is made

	keeping   sync.Mutex  // held by the keeper while it works
	retryFold atomic.Bool // the keeper may try to write the key file

	// These are replaced under changes and read by all.
	meta     atomic.Pointer[map[string][]byte]
	ids      atomic.Pointer[[]string] // of the keys that have a record, sorted
	unfolded atomic.Bool              // a lock is in the journal and not yet in the key file
}

const shardCount = 64

type shard struct {
	mu   sync.RWMutex
	keys map[string]*keyState
	_    [32]byte // a cache line of its own
}

// A keyState is what is remembered of one key.
type keyState struct {
	id     string
	stored atomic.Pointer[storedRecord] // nil: there is no record; written under mu

	mu       sync.Mutex
	failures int
	nonces   nonces
	buckets  []bucket
	used     []secretUse
	// carried is the oldest segment of the journal that may hold a part of
	// the state but the nonces; 0: there is none.
	carried   uint64
	lastSweep int64 // Unix seconds of the last sweep for want of room
}

// A storedRecord is a record and its line in the key file. It never changes.
type storedRecord struct {
	record *store.Record
	line   []byte
}

// A secretUse is the last minute in which a secret verified a request.
type secretUse struct {
	version int
	minute  int64 // Unix seconds
}

func newState(opt Options, path string) *state {
	st := &state{opt: opt, path: path, seed: maphash.MakeSeed(), limits: steadyClock{opt.Clock(), opt.elapsed}}
	for i := range st.shards {
		st.shards[i].keys = map[string]*keyState{}
	}
	st.retryFold.Store(true)
	st.ids.Store(&[]string{})
	st.meta.Store(&map[string][]byte{})
	return st
}

func (st *state) shard(id string) *shard {
	return &st.shards[maphash.String(st.seed, id)%shardCount]
}

// key returns the state of a key, or nil when nothing is known of it.
func (st *state) key(id string) *keyState {
	sh := st.shard(id)
	sh.mu.RLock()
	k := sh.keys[id]
	sh.mu.RUnlock()
	return k
}

// makeKey returns the state of a key, made if there was none. Only what holds
// st.changes, or has the state to itself, may call it.
func (st *state) makeKey(id string) *keyState {
	if k := st.key(id); k != nil {
		return k
	}
	sh := st.shard(id)
	k := &keyState{id: id}
	sh.mu.Lock()
	sh.keys[id] = k
	sh.mu.Unlock()
	return k
}

// eachKey calls f for every key. Keys that come or go meanwhile may be missed.
func (st *state) eachKey(f func(*keyState)) {
	var keys []*keyState
	for i := range st.shards {
		sh := &st.shards[i]
		sh.mu.RLock()
		keys = keys[:0]
		for _, k := range sh.keys {
			keys = append(keys, k)
		}
		sh.mu.RUnlock()
		for _, k := range keys {
			f(k)
		}
	}
}

// forget notes that nonces stamped up to that were dropped.
func (st *state) forget(stamp uint32) {
	for {
		old := st.forgotten.Load()
		if stamp == 0 || int64(stamp) <= old || st.forgotten.CompareAndSwap(old, int64(stamp)) {
			return
		}
	}
}

// mayBeLost reports whether the request may repeat one whose nonce was lost or
// dropped, and the replay floor of the contract, if so.
func (st *state) mayBeLost(c *store.Claim) (floor time.Time, lost bool) {
	until := st.forgotten.Load() * 1e9
	if raised := st.floor.Load(); raised != 0 {
		until = max(until, raised+int64(c.ReplayFloorAhead))
	}
	if c.Timestamp*1e9 > until {
		return floor, false
	}
	return time.Unix(0, until), true
}

// clockWasAhead returns an error while no request that is stamped now can be
// accepted: nonces were lost, or dropped, that are stamped in what is now the
// future.
func (st *state) clockWasAhead() error {
	until := time.Unix(0, max(st.floor.Load(), st.forgotten.Load()*1e9))
	if !until.After(st.opt.Clock()) {
		return nil
	}
	return fmt.Errorf("%w: the clock was ahead, requests stamped up to %s are refused; wait, or, if that was a mistake, stop the gateway and move the directory %s away",
		store.ErrUnavailable, until.UTC().Format(time.RFC3339), journalDir)
}

// sweepKey drops what is dead of a key at the moment now, page by page, so
// that no request waits long.
func (st *state) sweepKey(k *keyState, now int64) {
	more := true
	for i := 0; more; i++ {
		var gone int
		var dropped uint32
		k.mu.Lock()
		gone, dropped, more = k.nonces.sweep(i, clampSeconds(now))
		st.forget(dropped)
		if !more {
			k.dropBuckets(st.limits.at(st.opt.Clock()))
		}
		k.mu.Unlock()
		st.live.Add(int64(-gone))
	}
}

// makeRoom drops what is dead at the moment now, because a cap is reached, at
// most once a second. It reports whether it did.
func (st *state) makeRoom(k *keyState, now int64) bool {
	k.mu.Lock()
	swept := k.lastSweep == now
	k.lastSweep = now
	k.mu.Unlock()
	if !swept {
		st.sweepKey(k, now)
	}
	if st.live.Load() < st.opt.MaxNonces {
		return !swept
	}
	if st.lastSweep.Swap(now) == now {
		return false
	}
	st.eachKey(func(k *keyState) { st.sweepKey(k, now) })
	return true
}

// dropBuckets drops the levels of buckets that are empty at the moment now, in
// microseconds of the steady clock.
func (k *keyState) dropBuckets(now int64) {
	kept := k.buckets[:0]
	for _, b := range k.buckets {
		if !b.drained(now) {
			kept = append(kept, b)
		}
	}
	clear(k.buckets[len(kept):])
	k.buckets = kept
}

// forgetAll drops everything but the nonces.
func (k *keyState) forgetAll() {
	k.failures, k.buckets, k.used = 0, nil, nil
}

// bucket returns the index of a bucket, or -1.
func (k *keyState) bucket(name string) int {
	for i := range k.buckets {
		if k.buckets[i].name == name {
			return i
		}
	}
	return -1
}

func (k *keyState) setBucket(b bucket) {
	if i := k.bucket(b.name); i >= 0 {
		k.buckets[i] = b
	} else {
		k.buckets = append(k.buckets, b)
	}
}

// use notes that a secret verified a request. Of a few secrets the one that
// was used longest ago is forgotten.
func (k *keyState) use(version int, now int64) {
	if version == 0 {
		return
	}
	minute := now - now%60
	for i := range k.used {
		if k.used[i].version == version {
			k.used[i].minute = minute
			return
		}
	}
	if len(k.used) >= maxUses {
		oldest := 0
		for i := range k.used {
			if k.used[i].minute < k.used[oldest].minute {
				oldest = i
			}
		}
		k.used[oldest] = secretUse{version, minute}
		return
	}
	k.used = append(k.used, secretUse{version, minute})
}

// maxUses is more than the live secrets that a key has at a time.
const maxUses = 4

// view returns a copy of the record with the state beside it, or nil when
// there is none.
func (k *keyState) view() *store.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.stored.Load()
	if s == nil {
		return nil
	}
	r := s.record.Clone()
	r.Failures = k.failures
	if len(k.used) > 0 {
		r.LastUsed = make(map[int]time.Time, len(k.used))
		for _, u := range k.used {
			r.LastUsed[u.version] = time.Unix(u.minute, 0).UTC()
		}
	}
	return r
}

// withLock returns the record as it is once the lock is in it.
func withLock(r *store.Record, lock *auth.Lock, revision string) (*storedRecord, error) {
	r = r.Clone()
	r.Lock, r.Revision = lock, revision
	return newStored(r)
}
