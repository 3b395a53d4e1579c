package file

import (
	"errors"
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// prepare makes the spare segment if there is none. Appends do not wait for it.
func (j *journal) prepare() error {
	j.mu.Lock()
	if j.current == nil || j.spare != nil || j.failed != nil && time.Since(j.failedAt) < retryAfter {
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
	if j.current == nil || j.spare != nil || id < j.current.id { // closed, or an append made one itself
		j.failed = nil
		return s.discard()
	}
	j.spare, j.failed = s, nil
	return nil
}

// prepareLocked makes the spare segment while appends wait.
func (j *journal) prepareLocked() error {
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

func (j *journal) failLocked(cause error) error {
	if j.failed == nil {
		j.problem(fmt.Errorf("the journal cannot be written, requests are refused once it is full: %w", cause))
	}
	if j.failed = cause; !errors.Is(cause, store.ErrUnavailable) {
		j.failed = fmt.Errorf("%w: the journal cannot be written: %w", store.ErrUnavailable, cause)
	}
	j.failedAt = time.Now()
	return j.failed
}

// nudge wakes the keeper.
func (j *journal) nudge() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}
