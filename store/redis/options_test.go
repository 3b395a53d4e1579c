package redis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

func TestOptionsRefused(t *testing.T) {
	place := rpc.Options{URL: "redis://127.0.0.1:1"}
	for says, opt := range map[string]Options{
		"give one of a URL":    {},
		"must not hold braces": {Options: place, Prefix: "{a}"},
		"must not be negative": {Options: place, SettleTimeout: -time.Second},
	} {
		if _, err := New(opt); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want an error that says %q", err, says)
		}
	}
}

func TestStatus(t *testing.T) {
	s := open(t, single(t))
	status := s.Status(ctx)
	if status.Backend != "redis" || !status.Ready || status.Problem != "" || status.Details.Topology != "single" {
		t.Errorf("%+v", status)
	}
	if warnings := status.Details.Warnings; len(warnings) != 2 {
		t.Errorf("warnings %q; want one on persistence and one on memory", warnings)
	}
}

// TestNearFull: the status reports a server whose memory is nearly used up.
func TestNearFull(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false)
	s := open(t, Options{Options: rpc.Options{URL: p.URL()}})
	if list := degraded(s); len(list) != 0 {
		t.Errorf("degraded %q, want nothing", list)
	}
	p.Do(t, "config", "set", "maxmemory", usedMemory(t, p)*10/9)
	redistest.Eventually(t, 20*time.Second, "nonces", func() bool { return slices.Equal(degraded(s), []string{"nonces"}) })
	p.Do(t, "config", "set", "maxmemory", "0")
	redistest.Eventually(t, 20*time.Second, "nothing", func() bool { return len(degraded(s)) == 0 })
}
