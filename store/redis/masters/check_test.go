package masters

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

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
