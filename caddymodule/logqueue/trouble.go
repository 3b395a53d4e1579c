package logqueue

import (
	"context"
	"sync"
	"time"
)

const recentDrops = time.Minute

// Trouble reports whether an output hangs now, or lines were lost during the
// last minute.
func Trouble() bool {
	if last := lastDrop.Load(); last != 0 && uptime()-last < int64(recentDrops) {
		return true
	}
	for _, q := range all.list() {
		if q.stuck(patience) {
			return true
		}
	}
	return false
}

// Flush waits until all lines that are in queues now were written or lost, or
// the context ends. It does not wait for an output that hangs.
func Flush(ctx context.Context) {
	var queues sync.WaitGroup
	for _, q := range all.list() {
		if !q.stuck(patience) {
			queues.Go(func() { q.flush(ctx) })
		}
	}
	queues.Wait()
}
