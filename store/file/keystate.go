package file

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// A keyState is the state of one key.
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

// A storedRecord is a record and its text in the key file. It never changes.
type storedRecord struct {
	record *store.Record
	line   []byte // without the seal
	seal   []byte // the named value that holds it; nil: there is none
}

// A secretUse is the last minute in which a secret verified a request.
type secretUse struct {
	version int
	minute  int64 // Unix seconds
}

// dropBuckets drops the levels of buckets that are empty at now, in
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

// use records that a secret verified a request. It keeps at most maxUses
// secrets, and forgets the one that was used longest ago.
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
			r.LastUsed[u.version] = time.Unix(u.minute, 0).UTC()
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
