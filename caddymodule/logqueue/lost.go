package logqueue

import (
	"bytes"
	"crypto/rand"
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
