package logqueue

import (
	"context"
	"time"
)

const (
	stuckAfter  = 5 * time.Second
	recentDrops = time.Minute
)

// Trouble reports whether an output hangs now, or lines were lost during the
// last minute.
func Trouble() bool {
	if last := lastDrop.Load(); last != 0 && uptime()-last < int64(recentDrops) {
		return true
	}
	for _, q := range all.list() {
		if q.stuck(stuckAfter) {
			return true
		}
	}
	return false
}

// Flush waits until all lines that are in queues now were written or lost, or
// the context ends.
func Flush(ctx context.Context) {
	for _, q := range all.list() {
		q.flush(ctx)
	}
}
