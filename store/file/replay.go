package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A replayed is the result of reading the journal at a start.
type replayed struct {
	segments []*segment // oldest first, sealed
	seq      uint64     // of the next entry
	oldest   uint64     // of the oldest entry that is needed
	broken   bool       // the last thing read was damaged: what follows may have any number
	nextID   uint64
	boot     [16]byte   // of the newest segment
	seen     int64      // the highest time in it, Unix seconds
	ended    segmentEnd // how the newest segment ended
	position position   // after the last entry
	before   position   // after the last entry but one
	damage   []string   // what is missing or wrong; empty: nothing is
}

// replay reads the journal in the directory into the state. It skips damaged
// parts and lists them in the result. An error means that the journal must not be
// used.
func (st *state) replay(dir string, now int64) (*replayed, error) {
	ids, err := segmentIDs(dir)
	if err != nil {
		return nil, err
	}
	r := &replayed{seq: 1, nextID: 1, position: positionAt(1, 0)}
	for _, id := range ids {
		r.nextID = id + 1
		if err := st.replaySegment(r, dir, id, now); err != nil {
			return nil, fmt.Errorf("reading the journal: %w", err)
		}
	}
	if n := len(r.segments); n > 0 && len(r.damage) == 0 {
		if r.segments[0].firstSeq > r.oldest {
			r.note(r.segments[0], "entries before it are missing")
		}
		if r.ended == endContinued {
			r.note(r.segments[n-1], "the segment after it is missing")
		}
	}
	st.eachKey(func(k *keyState) {
		if k.stored.Load() == nil {
			k.forgetAll()
		} else if len(r.segments) > 0 {
			k.carried = r.segments[0].id
		}
	})
	return r, nil
}

func segmentIDs(dir string) (ids []uint64, err error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	for _, f := range files {
		if id, ok := segmentID(f.Name()); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (st *state) replaySegment(r *replayed, dir string, id uint64, now int64) error {
	s := &segment{id: id, path: filepath.Join(dir, segmentName(id))}
	if info, err := os.Lstat(s.path); err == nil && !info.Mode().IsRegular() {
		r.note(s, "it is not a file")
		r.broken = true
		return os.Rename(s.path, s.path+".aside")
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	if blank(b[:min(8, len(b))]) && blank(b[min(segmentHead, len(b)):]) {
		return os.Remove(s.path) // made in advance, never begun
	}
	h, header := readSegmentHeader(b)
	switch header {
	case headerForeign:
		return fmt.Errorf("%s has format %d, this version reads format %d; use the version that wrote it", s.path, b[7], segmentMagic[7])
	case headerDamaged:
		r.note(s, "its header is damaged")
		r.broken = true
	case headerMended:
		r.note(s, "its first bytes are damaged")
		fallthrough
	default:
		st.begun(r, s, &h)
	}
	r.ended = endMissing
	st.replayEntries(r, s, b, now)
	if len(b) < int(h.size) && r.ended == endMissing {
		r.note(s, "it is shorter than it was made")
	}
	r.segments = append(r.segments, s)
	return nil
}

// begun takes the fields of the next segment's header into the state.
func (st *state) begun(r *replayed, s *segment, h *segmentHeader) {
	switch {
	case h.id != s.id:
		r.note(s, fmt.Sprintf("it is the copy of segment %d", h.id))
	case h.firstSeq != r.seq && len(r.segments) > 0 && !r.broken:
		r.note(s, "entries before it are missing")
	}
	r.broken = false
	s.firstSeq, r.oldest = h.firstSeq, max(r.oldest, h.oldestSeq)
	r.seq, r.boot, r.seen = h.firstSeq, h.boot, max(r.seen, h.opened)
	st.forget(clampSeconds(h.forgotten))
	st.raiseFloor(h.floor)
}

func blank(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// replayEntries applies the entries of a segment. An incomplete entry at the end
// is not damage: the process ended while it was written, and its request was
// never answered.
func (st *state) replayEntries(r *replayed, s *segment, b []byte, now int64) {
	s.used = len(b)
	written := len(bytes.TrimRight(b, "\x00"))
	for at := segmentHead; at < written; {
		n, ok := entryLength(b[at:])
		if ok && at+n <= len(b) {
			if e, seq, ok := readEntry(b[at : at+n]); ok {
				if seq != uint32(r.seq) && !r.broken {
					r.note(s, fmt.Sprintf("entries before byte %d are missing", at))
				}
				r.broken = false
				r.seq += uint64(seq - uint32(r.seq))
				st.take(r, s, &e, now)
				if e.kind != entryEnd {
					r.before, r.position = r.position, positionAt(r.seq, entrySum(b[at:at+n]))
				}
				at += n
				continue
			}
		}
		if torn := !ok && written < at+8 || ok && written < at+n; torn {
			return
		}
		r.note(s, fmt.Sprintf("it is damaged at byte %d", at))
		r.broken = true
		at = nextEntry(b, at+8)
	}
}

// take applies an entry that was read.
func (st *state) take(r *replayed, s *segment, e *entry, now int64) {
	if e.kind == entryEnd {
		r.ended = segmentEnd(e.first)
		return
	}
	r.seq++
	r.ended = endMissing
	if e.kind == entryHorizon {
		r.oldest = max(r.oldest, uint64(e.failures))
	}
	r.seen = max(r.seen, e.now)
	s.note(e)
	st.apply(e, now)
}

// nextEntry returns where the next intact entry begins, or the end of b.
func nextEntry(b []byte, at int) int {
	for ; at+8 <= len(b); at += 8 {
		if n, ok := entryLength(b[at:]); ok && at+n <= len(b) {
			if _, _, ok := readEntry(b[at : at+n]); ok {
				return at
			}
		}
	}
	return len(b)
}

func (r *replayed) note(s *segment, what string) {
	r.damage = append(r.damage, fmt.Sprintf("%s: %s", s.path, what))
}

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
	n := newNonce(e.first, e.second)
	if e.second <= now {
		st.forget(n.stamp)
		return
	}
	switch known := k.nonces[e.nonce]; {
	case !known.known():
		st.live.Add(1)
	case known.stamp != n.stamp: // the older one was dead when the newer came
		st.forget(known.stamp)
	}
	k.keepNonce(e.nonce, n)
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
