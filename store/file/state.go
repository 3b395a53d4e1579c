package file

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file/journal"
)

// A state is all state of the store, in memory. Locks are taken in this order:
// keeping, changes, a key's, then listing, a shard's or the journal's.
type state struct {
	opt     Options
	path    string           // of the key file
	journal *journal.Journal // nil: read-only, nothing is settled
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
	// keySum is the checksum of the key file's last object. The journal notes it before
	// it is written, and noted are the last two in the journal at the start.
	keySum atomic.Pointer[string]
	noted  [2]string
	// live is the number of nonces in memory.
	live      atomic.Int64
	lastSweep atomic.Int64 // Unix seconds of the last sweep for want of room

	// changes guards what follows, and the key file.
	changes  sync.Mutex
	closed   bool
	document []byte // the buffer in which the key file is made
	log      keyLog
	version  int // of the key file; 0: there is none
	spare    keySpare

	keeping sync.Mutex // held by the keeper while it works

	// These are changed under changes and listing, and read under one of them.
	ids     []string // of the keys that have a record, sorted
	meta    map[string][]byte
	listing sync.RWMutex

	// spareTrouble is why there is no room for changes of keys; nil: there is.
	spareTrouble atomic.Pointer[string]
	unfolded     atomic.Bool // a key may be unfolded
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
		keys = slices.AppendSeq(keys[:0], maps.Values(sh.keys))
		sh.mu.RUnlock()
		for _, k := range keys {
			f(k)
		}
	}
}

// A keyState is the state of one key.
type keyState struct {
	id     string
	stored atomic.Pointer[storedRecord] // nil: there is no record; written under mu

	mu       sync.Mutex
	unfolded bool // a lock of it is in the journal and not yet in the key file
	failures int
	nonces   nonces
	// mostNonces is the largest number of nonces since the map was made.
	mostNonces int
	buckets    []journal.Bucket
	used       []pair // versions of the secret, each with the last minute in which it verified a request, in Unix seconds
	origins
	// carried is the oldest segment of the journal that may hold a part of
	// the state but the nonces; 0: there is none.
	carried   uint64
	lastSweep int64 // Unix seconds of the last sweep for want of room
}

// A storedRecord is a record and its text in the key file. It never changes.
type storedRecord struct {
	record *store.Record
	line   []byte // without the seal
	seal   []byte // the named value that holds it; nil: there is none
}

// dropBuckets drops the levels of buckets that are empty at now, in
// microseconds of the steady clock.
func (k *keyState) dropBuckets(now int64) {
	k.buckets = slices.DeleteFunc(k.buckets, func(b journal.Bucket) bool {
		return b.Level.Used <= 0 || b.Drain > 0 && now-b.Level.At > b.Level.Used/b.Drain
	})
}

// forgetAll drops everything but the nonces.
func (k *keyState) forgetAll() {
	k.failures, k.buckets, k.used, k.origins = 0, nil, nil, origins{}
}

// setFailures sets the failure count. With 0, what holders have added to it is forgotten.
func (k *keyState) setFailures(n int) {
	if k.failures = n; n == 0 {
		k.parts = nil
	}
}

// bucket returns the index of a bucket, or -1.
func (k *keyState) bucket(name string) int {
	for i := range k.buckets {
		if k.buckets[i].Name == name {
			return i
		}
	}
	return -1
}

func (k *keyState) setBucket(b journal.Bucket) {
	if i := k.bucket(b.Name); i >= 0 {
		k.buckets[i] = b
	} else {
		k.buckets = append(k.buckets, b)
	}
}

// use records that a secret verified a request. It keeps at most maxUses
// secrets, and forgets the one that was used longest ago.
func (k *keyState) use(version int, now int64) {
	if version == 0 {
		return
	}
	use := pair{int64(version), now - now%60}
	switch i := slices.IndexFunc(k.used, func(u pair) bool { return u.of == use.of }); {
	case i >= 0:
		k.used[i] = use
	case len(k.used) < maxUses:
		k.used = append(k.used, use)
	default:
		oldest := slices.MinFunc(k.used, func(a, b pair) int { return cmp.Compare(a.n, b.n) })
		k.used[slices.Index(k.used, oldest)] = use
	}
}

// maxUses is more than the number of live secrets that a key can have.
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
			r.LastUsed[int(u.of)] = time.Unix(u.n, 0).UTC()
		}
	}
	return r
}

// withLock returns a copy of the record with the lock in it.
func withLock(r *store.Record, lock *auth.Lock, revision string) (*storedRecord, error) {
	r = r.Clone()
	r.Lock, r.Revision = lock, revision
	return newStored(r)
}

// A steadyClock is the clock by which limits drain: the wall clock at the start
// of the store, plus the monotonic time since then. So when the wall clock
// jumps, a bucket neither stops draining nor drains at once.
//
// Nonces and timestamps use the wall clock, because the timestamps of requests
// are compared with it.
type steadyClock struct {
	start   time.Time
	nanos   int64                         // start in Unix nanoseconds
	elapsed func(time.Time) time.Duration // nil: by the readings of the monotonic clock
}

func newSteadyClock(opt *Options) steadyClock {
	start := opt.Clock()
	return steadyClock{start: start, nanos: start.UnixNano(), elapsed: opt.elapsed}
}

// at returns the time of this clock at a moment, in microseconds.
func (c *steadyClock) at(now time.Time) int64 {
	if c.elapsed != nil {
		return (c.nanos + int64(c.elapsed(now))) / 1000
	}
	return (c.nanos + int64(now.Sub(c.start))) / 1000
}

// lag returns by how many microseconds this clock is behind the wall clock.
// Levels in memory are in the time of this clock. In the journal and in verdicts
// they are in the time of the wall clock.
func (c *steadyClock) lag(now time.Time) int64 { return now.UnixMicro() - c.at(now) }

// bound limits how far the time of the level is ahead of now, in microseconds:
// at most as long as the whole burst takes to drain.
func bound(l *ratelimit.Level, ch *ratelimit.Charge, now int64) {
	if l.At > now {
		l.At = min(l.At, now+ch.Capacity/ch.Drain)
	}
}

// horizon returns up to when nonces are forgotten or lost.
func (st *state) horizon() journal.Horizon {
	return journal.Horizon{Forgotten: st.forgotten.Load(), Floor: st.floor.Load(), Note: *st.keySum.Load()}
}

// raiseHorizon records a horizon that was read.
func (st *state) raiseHorizon(h journal.Horizon) {
	st.forget(clampSeconds(h.Forgotten))
	st.raiseFloor(h.Floor)
}

// forget records that nonces with timestamps up to stamp were dropped.
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
// accepted. This happens when the clock was ahead and has gone back: nonces with
// timestamps later than now were lost or dropped.
func (st *state) clockWasAhead() error {
	until := time.Unix(0, max(st.floor.Load(), st.forgotten.Load()*1e9))
	if !until.After(st.opt.Clock()) {
		return nil
	}
	return fmt.Errorf("%w: the clock was ahead, requests stamped up to %s are refused; wait, or, if that was a mistake, stop the gateway and move the directory %s away",
		store.ErrUnavailable, until.UTC().Format(time.RFC3339), journalDir)
}

// raiseFloor records that nonces may have been lost up to the floor, a moment in
// nanoseconds of Unix time.
func (st *state) raiseFloor(floor int64) {
	if floor > st.floor.Load() {
		st.floor.Store(floor)
	}
}
