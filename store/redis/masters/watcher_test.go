package masters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// A slow check of the servers delays no request for longer than settling may
// take.
func TestSlowCheckHoldsNoSettle(t *testing.T) {
	w := watcher(t, rpc.Options{URL: "redis://127.0.0.1:1"})
	w.checking.Lock() // a check is under way
	defer w.checking.Unlock()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := w.CheckAgain(ctx, w.View()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// A request that sees the empty store is answered while a check goes on.
func TestEmptiedWaitsForNoCheck(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false)
	w := begun(t, watcher(t, rpc.Options{URL: p.URL()}))
	w.checking.Lock()
	p.Do(t, "flushall")
	answered := make(chan error)
	go func() { answered <- w.InUse(ctx, "a") }()
	select {
	case err := <-answered:
		if !errors.Is(err, ErrEmptied) || !w.Lost() {
			t.Errorf("%v, and lost %v", err, w.Lost())
		}
		w.checking.Unlock()
	case <-time.After(redistest.Busy * time.Second):
		w.checking.Unlock()
		t.Errorf("it waited for the check: %v", <-answered)
	}
}

// TestOneLineForOneProblem: a problem that goes on is one line of the log, although
// its text has another port in each check.
func TestOneLineForOneProblem(t *testing.T) {
	var log strings.Builder
	checks, what := 0, "i/o timeout"
	w := watcher(t, rpc.Options{
		URL: "redis://127.0.0.1:1", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			checks++
			return nil, fmt.Errorf("read tcp 127.0.0.1:%d->127.0.0.1:1: %s", 30_000+checks, what)
		},
	})
	for i, want := range []struct {
		what  string
		lines int
	}{{what, 0}, {what, 0}, {what, 0}, {"connection refused", 1}, {"connection refused", 1}} {
		what = want.what
		_ = w.check(ctx, mayBegin)
		if n := strings.Count(log.String(), "redis is not ready"); n != want.lines || checks == 0 {
			t.Errorf("check %d: %d lines, want %d\n%s", i, n, want.lines, &log)
		}
	}
}
