package logqueue

import (
	"bytes"
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"
)

// Run names this run of the process. Every line of the audit log has it, by
// which a queue knows that what it loses is such a line.
var Run = rand.Text()

var (
	run       = []byte(Run)
	start     = time.Now()
	dropped   atomic.Uint64
	lastDrop  atomic.Int64 // by uptime
	auditLost atomic.Uint64
)

// uptime returns the nanoseconds since the start, never 0.
func uptime() int64 { return max(1, int64(time.Since(start))) }

func lose(line []byte) {
	dropped.Add(1)
	lastDrop.Store(uptime())
	if bytes.Contains(line, run) {
		auditLost.Add(1)
	}
}

// Dropped returns how many lines of all logs were lost since the start of the
// process: there was no room for them, or their output refused them.
func Dropped() uint64 { return dropped.Load() }

// AuditLost returns how many of those had the text Run in them.
func AuditLost() uint64 { return auditLost.Load() }

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

// all holds the queues that are open.
var all = openQueues{set: make(map[*queue]struct{})}

type openQueues struct {
	mu  sync.Mutex
	set map[*queue]struct{}
}

func (o *openQueues) add(q *queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set[q] = struct{}{}
}

func (o *openQueues) remove(q *queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.set, q)
}

func (o *openQueues) list() []*queue {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make([]*queue, 0, len(o.set))
	for q := range o.set {
		list = append(list, q)
	}
	return list
}
