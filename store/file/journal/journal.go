// Package journal keeps the journal of the embedded store: numbered entries in mapped
// files, which survive any end of the process.
//
// [Read] returns what a process before has left and reports damage, and
// [Contents.Continue] begins a [Journal] after it. An [Entry] is what is written and
// read; what it means to the keys is decided by the store that writes it. The format
// of entries is in entry.go, that of files in segment.go. The high-water mark in
// mark.go is outside of the journal's directory: it shows that a journal has lost its
// end, or was put back from an older copy.
//
// Begin with [Journal].
package journal

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// A Journal is a sequence of segments, each a file in one directory. An entry is
// written to it before its change takes effect. Entries are numbered and written
// one after the other, so that only the last can be incomplete. An append is a
// copy into mapped memory: it needs no system call, and the kernel keeps the
// bytes when the process is killed. A crash of the machine can lose them; then
// the replay floor applies.
//
// All methods may be called at once from many goroutines, but Tidy, Shorten and Drop
// only from one, the keeper.
type Journal struct {
	// Wake gets a value when Prepare or Tidy has something to do, and by Nudge.
	Wake chan struct{}

	opt  Options
	dir  string
	boot [16]byte

	mu       sync.Mutex
	current  *Segment // nil: closed
	spare    *Segment // made in advance; nil: Prepare has to make it
	sealed   []*Segment
	mark     mark   // of no files: there is none
	seq      uint64 // of the next entry
	nextID   uint64
	size     int // of the next segment
	failed   error
	failedAt time.Time
}

// Options are what a journal needs from the store that writes it. All but Marks and
// Boot must be set.
type Options struct {
	Boot    string      // identifies this run of the machine; "": unknown
	Marks   []string    // paths of the high-water mark; empty: there is none
	Problem func(error) // is called with every new problem
	// Horizon returns the horizon for the header of a new segment.
	Horizon func() Horizon
	// RetryAfter is the time after a failure to make a segment in which nothing
	// tries again.
	RetryAfter time.Duration
}

// The journal begins the next segment when the current one is full, or after
// this many seconds if a spare segment is ready.
const segmentSeconds = 60

// ErrClosed means that the journal or the store was closed.
var ErrClosed = fmt.Errorf("%w: it is closed", store.ErrUnavailable)

// Append writes an entry and returns the id of the segment that holds it. An
// error is a store.ErrUnavailable and means that nothing was written.
func (j *Journal) Append(e *Entry) (id uint64, err error) {
	size := e.size()
	if size > maxEntry || len(e.Buckets) > 255 {
		return 0, fmt.Errorf("%w: the key id or the names of its buckets are too long for the journal", store.ErrUnavailable)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.makeRoom(size, e.Now); err != nil {
		return 0, err
	}
	s := j.current
	written := false
	err = s.touch(func() {
		sum := e.write(s.data[s.used:s.used+size], j.seq)
		written = true
		j.mark.set(positionAt(j.seq+1, sum))
	})
	switch {
	case err != nil && written:
		j.loseMark(err)
	case err != nil:
		s.used = len(s.data) // nothing more goes into it
		j.opt.Problem(err)
		return 0, err
	}
	s.used += size
	j.seq++
	s.note(e)
	return s.ID, nil
}

// makeRoom ensures that the current segment has room for size bytes. It chooses
// the size of the next segment by the number of bytes that are written in a
// minute.
func (j *Journal) makeRoom(size int, now int64) error {
	s := j.current
	if s == nil {
		return ErrClosed
	}
	full := s.used+size+endSize > len(s.data)
	due := s.holdsMore && now-s.opened >= segmentSeconds
	if !full && (!due || j.spare == nil) {
		if due {
			j.Nudge()
		}
		return nil
	}
	if j.spare == nil || len(j.spare.data) < segmentHead+size+endSize {
		if j.failed != nil && time.Since(j.failedAt) < j.opt.RetryAfter {
			return j.failed
		}
		if err := j.prepareLocked(); err != nil {
			return err
		}
	}
	err := j.turnLocked(now)
	switch {
	case err != nil && !full:
		err = nil // it still fits here
	case err == nil && full && now-s.opened < segmentSeconds/2:
		j.size = min(4*j.size, maxSegmentSize)
	case err == nil && !full && s.used < len(s.data)/4:
		j.size = max(j.size/2, minSegmentSize)
	}
	return err
}

// turnLocked makes the spare segment the current one. If the spare segment
// cannot be written, turnLocked discards it and keeps the current segment.
func (j *Journal) turnLocked(now int64) error {
	sealed := j.sealed
	if j.current != nil {
		sealed = append(sealed, j.current)
	}
	h := segmentHeader{firstSeq: j.seq, oldestSeq: j.seq, opened: now, boot: j.boot, Horizon: j.opt.Horizon()}
	if len(sealed) > 0 {
		h.oldestSeq = sealed[0].firstSeq
	}
	next := j.spare
	j.spare = nil
	defer j.Nudge()
	if err := next.touch(func() { next.begin(h) }); err != nil {
		_ = next.discard()
		return j.failLocked(err)
	}
	if j.current != nil {
		j.current.end(j.seq, endContinued)
	}
	j.current, j.sealed = next, sealed
	j.mark.setHorizon(h.Horizon)
	return nil
}

// Ready returns an error if appends fail, or will fail after a few more.
func (j *Journal) Ready() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current == nil {
		return ErrClosed
	}
	if left := len(j.current.data) - j.current.used; left < maxEntry && j.spare == nil {
		return j.failed
	}
	return nil
}

// Extent returns the number of segments and the bytes of entries in them.
func (j *Journal) Extent() (segments int, bytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.sealed {
		bytes += int64(s.used)
	}
	if j.current != nil {
		bytes += int64(j.current.used)
		segments = 1
	}
	return segments + len(j.sealed), bytes
}

// Close ends the journal: appends fail from now on.
func (j *Journal) Close() error {
	j.mu.Lock()
	current, spare := j.current, j.spare
	j.current, j.spare = nil, nil
	if current != nil {
		current.end(j.seq, endClosed)
	}
	err := j.mark.close()
	j.mark = mark{}
	j.mu.Unlock()
	if spare != nil {
		_ = spare.discard()
	}
	for _, s := range append(j.sealed, current) {
		if s != nil {
			err = errors.Join(err, s.seal())
		}
	}
	return err
}

// Prepare makes the spare segment if there is none. Appends do not wait for it.
func (j *Journal) Prepare() error {
	j.mu.Lock()
	if j.current == nil || j.spare != nil || j.failed != nil && time.Since(j.failedAt) < j.opt.RetryAfter {
		defer j.mu.Unlock()
		return j.failed
	}
	id, size := j.nextID, j.size
	j.nextID++
	j.mu.Unlock()

	s, err := newSegment(j.dir, id, size)

	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		return j.failLocked(err)
	}
	if j.current == nil || j.spare != nil || id < j.current.ID { // closed, or an append made one itself
		j.failed = nil
		return s.discard()
	}
	j.spare, j.failed = s, nil
	return nil
}

// prepareLocked makes the spare segment while appends wait.
func (j *Journal) prepareLocked() error {
	s, err := newSegment(j.dir, j.nextID, j.size)
	if err != nil {
		return j.failLocked(err)
	}
	if j.spare != nil {
		_ = j.spare.discard()
	}
	j.nextID++
	j.spare, j.failed = s, nil
	return nil
}

func (j *Journal) failLocked(cause error) error {
	if j.failed == nil {
		j.opt.Problem(fmt.Errorf("the journal cannot be written, requests are refused once it is full: %w", cause))
	}
	if j.failed = cause; !errors.Is(cause, store.ErrUnavailable) {
		j.failed = fmt.Errorf("%w: the journal cannot be written: %w", store.ErrUnavailable, cause)
	}
	j.failedAt = time.Now()
	return j.failed
}

// Nudge sends to Wake.
func (j *Journal) Nudge() {
	select {
	case j.Wake <- struct{}{}:
	default:
	}
}

// Tidy frees what the sealed segments do not need, and returns those in which
// every nonce is dead at now, the oldest first. A segment is only among them if
// all older ones are.
func (j *Journal) Tidy(now int64) (dead []*Segment) {
	j.mu.Lock()
	sealed := j.sealed
	j.mu.Unlock()
	for _, s := range sealed {
		if err := s.seal(); err != nil {
			j.opt.Problem(fmt.Errorf("closing %s: %w", s.path, err))
		}
	}
	for i, s := range sealed {
		if s.lastDeath > now {
			return sealed[:i]
		}
	}
	return sealed
}

// Stuck reports whether the oldest segment must be kept for longer than the life
// of a nonce that is accepted at now. limit is the time up to which segments are
// usually kept, and last the newest sealed segment.
func (j *Journal) Stuck(now int64) (limit int64, last uint64, stuck bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current == nil || len(j.sealed) == 0 {
		return 0, 0, false
	}
	longest := max(j.current.longest, carriedSeconds)
	for _, s := range j.sealed {
		longest = max(longest, s.longest)
	}
	limit = now + longest
	return limit, j.sealed[len(j.sealed)-1].ID, j.sealed[0].lastDeath > limit
}

// Shorten limits the time until which the segments up to last are kept.
func (j *Journal) Shorten(limit int64, last uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.sealed {
		if s.ID <= last {
			s.lastDeath, s.Shortened = min(s.lastDeath, limit), true
		}
	}
}

// firstAfter returns the sequence number of the first entry after the n oldest
// segments.
func (j *Journal) firstAfter(n int) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case n < len(j.sealed):
		return j.sealed[n].firstSeq
	case j.current != nil:
		return j.current.firstSeq
	}
	return j.seq
}

// Drop removes the oldest segments, which Tidy or Read returned. Before that, it writes
// into the journal that they are not needed, and the horizon.
func (j *Journal) Drop(dead []*Segment, now int64) error {
	h := j.opt.Horizon()
	_, err := j.Append(&Entry{Kind: KindHorizon, Now: now, First: h.Forgotten, Second: h.Floor, Failures: int64(j.firstAfter(len(dead))), Extra: h.Note})
	if err != nil {
		return err
	}
	for _, s := range dead {
		if err := s.discard(); err != nil {
			return err
		}
		j.mu.Lock()
		j.sealed = j.sealed[1:]
		j.mu.Unlock()
	}
	return nil
}
