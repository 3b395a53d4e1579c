package file

import (
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/file/journal"
)

// replay reads the journal in the directory into the state.
func (st *state) replay(dir string, now int64) (*journal.Contents, error) {
	c, err := journal.Read(dir, func(e *journal.Entry) { st.apply(e, now) })
	if err != nil {
		return nil, err
	}
	st.eachKey(func(k *keyState) {
		if k.stored.Load() == nil {
			k.forgetAll()
		} else if len(c.Segments) > 0 {
			k.carried = c.Segments[0].ID
		}
	})
	return c, nil
}

// apply repeats on the state the change that the entry records. It skips a nonce
// that is dead at now. A level that was written at a later time than now drains
// from now on.
func (st *state) apply(e *journal.Entry, now int64) {
	if e.Kind == journal.KindHorizon {
		st.raiseHorizon(journal.Horizon{Forgotten: e.First, Floor: e.Second})
		if e.Extra != "" && e.Extra != st.noted[1] {
			st.noted = [2]string{st.noted[1], e.Extra}
		}
		return
	}
	for i := range e.Buckets {
		e.Buckets[i].Level.At = min(e.Buckets[i].Level.At, (now+1)*1e6)
	}
	k := st.makeKey(e.Key)
	switch e.Kind {
	case journal.KindNonce:
		st.takeUp(k, e, now)
	case journal.KindAccepted:
		st.takeUp(k, e, now)
		for _, b := range e.Buckets {
			k.setBucket(b)
		}
		k.count(e)
		k.use(int(e.Version), e.Now)
	case journal.KindCounted:
		k.count(e)
	case journal.KindState:
		k.buckets = e.Buckets
		k.readState(e.Extra)
		k.setFailures(int(e.Failures))
	case journal.KindLocked:
		k.setFailures(0)
		st.relock(k, e)
	}
}

// count repeats what an entry records of the failure count and the origins.
func (k *keyState) count(e *journal.Entry) {
	if e.Extra != "" {
		k.origins = readOrigins(e.Extra)
	}
	k.setFailures(int(e.Failures))
}

func (st *state) takeUp(k *keyState, e *journal.Entry, now int64) {
	n := newNonce(e.First, e.Second)
	if e.Second <= now {
		st.forget(n.stamp)
		return
	}
	switch known := k.nonces[e.Nonce]; {
	case !known.known():
		st.live.Add(1)
	case known.stamp != n.stamp: // the older one was dead when the newer came
		st.forget(known.stamp)
	}
	k.keepNonce(e.Nonce, n)
}

// relock writes a lock into the record if the key file does not hold it yet.
func (st *state) relock(k *keyState, e *journal.Entry) {
	before, after, ok := strings.Cut(e.Extra, "\x00")
	stored := k.stored.Load()
	if !ok || stored == nil || stored.record.Revision != before {
		return
	}
	lock := &auth.Lock{At: time.Unix(0, e.First).UTC(), Failures: int(e.Failures)}
	if e.Second != 0 {
		lock.Until = time.Unix(0, e.Second).UTC()
	}
	if locked, err := withLock(stored.record, lock, after); err == nil {
		k.stored.Store(locked)
		k.unfolded = true
		st.unfolded.Store(true)
	}
}

func joinRevisions(before, after string) string { return before + "\x00" + after }

// appendState encodes when secrets were last used, 64 bytes, and the origins. Earlier
// versions wrote no origins and as many uses as there are, and read up to four.
func (k *keyState) appendState(dst []byte) []byte {
	var used [maxUses]pair
	copy(used[:], k.used)
	return k.origins.appendTo(appendPairs(dst, used[:]))
}

// readState is the inverse of appendState.
func (k *keyState) readState(text string) {
	used := min(len(text), maxUses*pairBytes)
	k.used = slices.DeleteFunc(readPairs(text[:used]), func(u pair) bool { return u.of == 0 })
	k.origins = readOrigins(text[used:])
}
