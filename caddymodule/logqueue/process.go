package logqueue

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/caddyserver/caddy/v2"
)

// What this process is doing decides where a line goes, and whether Write waits:
//
//   - It checks or starts its first configuration. A line is written at once, also to
//     standard error, because the process may end with it. Files are opened only if
//     the configuration is being started.
//   - It serves. No Write waits.
//   - It ends. A line is written at once.

var (
	served   atomic.Bool               // a configuration was started
	openOnce sync.Once                 // closes opened
	opened   = make(chan struct{})     // closed: files may be opened
	quit     = make(chan os.Signal, 1) // Caddy ends the process at once; never read
)

// Open lets the queues open their files: a configuration is being started, and not
// only checked.
func Open() {
	openOnce.Do(func() {
		close(opened)
		caddy.OnExit(flushAll)
		signal.Notify(quit, syscall.SIGQUIT)
	})
}

// starting reports whether no configuration was started yet.
func starting() bool {
	if served.Load() {
		return false
	}
	if caddy.ActiveContext().Context == nil {
		return true
	}
	served.Store(true)
	Open()
	return false
}

// ending reports whether the process ends.
func ending() bool { return caddy.Exiting() || len(quit) > 0 }

// flushAll flushes for at most patience.
func flushAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	Flush(ctx)
}

// terminal returns the queue of copies on standard error.
var terminal = sync.OnceValue(func() *queue {
	out, _ := caddy.StderrWriter{}.OpenWriter() // never fails
	return newQueue(out, limits{bytes: 1 << 20, lines: 1 << 10})
})
