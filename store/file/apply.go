package file

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// apply repeats on the state the change that the entry records. It skips a nonce
// that is dead at now. A level that was written at a later time than now drains
// from now on.
func (st *state) apply(e *entry, now int64) {
	if e.kind == entryHorizon {
		st.forget(clampSeconds(e.first))
		st.raiseFloor(e.second)
		return
	}
	for i := range e.buckets {
		e.buckets[i].level.At = min(e.buckets[i].level.At, (now+1)*1e6)
	}
	k := st.makeKey(e.key)
	switch e.kind {
	case entryNonce:
		st.takeUp(k, e, now)
	case entryAccepted:
		st.takeUp(k, e, now)
		for _, b := range e.buckets {
			k.setBucket(b)
		}
		k.failures = int(e.failures)
		k.use(int(e.version), e.now)
	case entryCounted:
		k.failures = int(e.failures)
	case entryState:
		k.failures, k.buckets, k.used = int(e.failures), e.buckets, readUses(e.extra)
	case entryLocked:
		k.failures = 0
		st.relock(k, e)
	}
}

func (st *state) takeUp(k *keyState, e *entry, now int64) {
	slot := makeSlot(&e.nonce, e.first, e.second)
	if e.second <= now {
		st.forget(slot.stamp)
		return
	}
	if known := k.nonces.find(&slot); known != nil {
		if known.stamp != slot.stamp { // the older one was dead when the newer came
			st.forget(known.stamp)
		}
		*known = slot
		return
	}
	before := k.nonces.count
	st.forget(k.nonces.insert(slot, clampSeconds(now)))
	st.live.Add(int64(k.nonces.count - before))
}

// relock writes a lock into the record if the key file does not hold it yet.
func (st *state) relock(k *keyState, e *entry) {
	before, after, ok := strings.Cut(e.extra, "\x00")
	stored := k.stored.Load()
	if !ok || stored == nil || stored.record.Revision != before {
		return
	}
	lock := &auth.Lock{At: time.Unix(0, e.first).UTC(), Failures: int(e.failures)}
	if e.second != 0 {
		lock.Until = time.Unix(0, e.second).UTC()
	}
	if locked, err := withLock(stored.record, lock, after); err == nil {
		k.stored.Store(locked)
		st.unfolded.Store(true)
	}
}

func joinRevisions(before, after string) string { return before + "\x00" + after }

// appendUses encodes when secrets were last used: version and minute, 8 bytes
// each.
func appendUses(dst []byte, used []secretUse) []byte {
	for _, u := range used {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(u.version))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(u.minute))
	}
	return dst
}

func readUses(s string) (used []secretUse) {
	for b := []byte(s); len(b) >= 16 && len(used) < maxUses; b = b[16:] {
		used = append(used, secretUse{int(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))})
	}
	return used
}
