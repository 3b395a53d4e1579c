package file

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// A state is all state of the store, in memory. Locks are taken in this order:
// keeping, changes, a key's, a shard's or the journal's.
type state struct {
	opt     Options
	path    string   // of the key file
	journal *journal // nil: read-only, nothing is settled
	limits  steadyClock

	seed   maphash.Seed
	shards [shardCount]shard

	// forgotten is the latest timestamp, in Unix seconds, of a nonce that was
	// dropped. A request stamped up to it might be a repetition, so it is under
	// the replay floor. Nonces live longer than the window of their requests, so
	// this refuses nothing while the clock goes forward. It protects when a clock
	// jumps ahead and back, or when a window is made wider.
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
	spare    keySpare

	keeping   sync.Mutex  // held by the keeper while it works
	retryFold atomic.Bool // the keeper may try to write the key file

	// These are replaced under changes and read by all.
	meta atomic.Pointer[map[string][]byte]
	ids  atomic.Pointer[[]string] // of the keys that have a record, sorted
	// spareTrouble is why there is no room for changes of keys; nil: there is.
	spareTrouble atomic.Pointer[string]
	unfolded     atomic.Bool // a lock is in the journal and not yet in the key file
}

const shardCount = 64

type shard struct {
	mu   sync.RWMutex
	keys map[string]*keyState
	_    [32]byte // a cache line of its own
}

func newState(opt Options, path string) *state {
	st := &state{opt: opt, path: path, seed: maphash.MakeSeed(), limits: newSteadyClock(&opt)}
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

// makeKey returns the state of a key, and makes one if there is none. The caller
// must hold st.changes, or be the only user of the state.
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

// sweepKey drops the nonces of a key that are dead at now. It does so page by
// page, so that no request waits long.
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

// makeRoom drops nonces that are dead at now, when a cap is reached, but at most
// once a second. It reports whether it did.
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
