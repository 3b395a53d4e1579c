package file

import "fmt"

// tidy frees what the sealed segments do not need, and returns those in which
// every nonce is dead at now, the oldest first. A segment is only among them if
// all older ones are.
func (j *journal) tidy(now int64) (dead []*segment) {
	j.mu.Lock()
	sealed := j.sealed
	j.mu.Unlock()
	for _, s := range sealed {
		if err := s.seal(); err != nil {
			j.problem(fmt.Errorf("closing %s: %w", s.path, err))
		}
	}
	for i, s := range sealed {
		if s.lastDeath > now {
			return sealed[:i]
		}
	}
	return sealed
}

// stuck reports whether the oldest segment must be kept for longer than the life
// of a nonce that is accepted at now. limit is the time up to which segments are
// usually kept, and last the newest sealed segment.
func (j *journal) stuck(now int64) (limit int64, last uint64, stuck bool) {
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
	return limit, j.sealed[len(j.sealed)-1].id, j.sealed[0].lastDeath > limit
}

// shorten limits the time until which the segments up to last are kept.
func (j *journal) shorten(limit int64, last uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.sealed {
		if s.id <= last {
			s.lastDeath, s.shortened = min(s.lastDeath, limit), true
		}
	}
}

// firstAfter returns the sequence number of the first entry after the n oldest
// segments.
func (j *journal) firstAfter(n int) uint64 {
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

// drop removes the oldest segments, which tidy returned.
func (j *journal) drop(dead []*segment) error {
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
