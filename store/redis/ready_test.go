package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// degraded returns the troubles of Status.
func degraded(s *Store) []string { return s.Status(ctx).Details.Degraded }

// Ready returns nil exactly if the next correct request would be accepted, for
// every cause that makes a server refuse writes.
func TestReadyAsRequests(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ trouble, cure []any }{
		"out of memory":    {[]any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}},
		"without replicas": {[]any{"config", "set", "min-replicas-to-write", "1"}, []any{"config", "set", "min-replicas-to-write", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := own(t, false)
			s := open(t, Options{URL: p.url(), IOTimeout: time.Second, SettleTimeout: 2 * time.Second})
			r := newKey(t, s)
			for range 2 {
				expect(t, s, newClaim(r), auth.Accepted)
				if err := s.Ready(ctx); err != nil {
					t.Errorf("Ready: %v", err)
				}
				p.do(t, tt.trouble...)
				eventually(t, 10*time.Second, "not ready", func() bool { return s.Ready(ctx) != nil })
				_, err := s.Settle(ctx, newClaim(r))
				if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrFull) != errors.Is(s.Ready(ctx), store.ErrFull) {
					t.Errorf("Settle: %v, Ready: %v", err, s.Ready(ctx))
				}
				p.do(t, tt.cure...)
				eventually(t, 10*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
			}
			if n := p.client.Exists(ctx, s.names.missing(allSlots())).Val(); n != 0 {
				t.Error("the check has written something")
			}
		})
	}
}

// When one master of a cluster stops, the gateway stays ready, the keys of the
// other masters work, and the trouble is reported.
func TestDegradedCluster(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, p *process){
		"flushed":       func(t *testing.T, p *process) { p.do(t, "flushall") },
		"out of memory": func(t *testing.T, p *process) { p.do(t, "config", "set", "maxmemory", "1") },
		"dead":          func(_ *testing.T, p *process) { p.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := ownCluster(t)
			opt := Options{ClusterAddrs: addrs(nodes), IOTimeout: time.Second, SettleTimeout: 2 * time.Second}
			a, b := pair(t, opt)
			shared := slot(a.names.shared()) * 3 / slots // the master that holds the shared values
			r := keyOn(t, a, (shared+1)%3)
			acceptAhead(t, b, r)
			if list := degraded(a); len(list) != 0 {
				t.Errorf("degraded %q, want nothing", list)
			}
			fail(t, nodes[shared])
			for _, s := range []*Store{a, b} {
				eventually(t, 20*time.Second, "degraded", func() bool { return len(degraded(s)) > 0 })
				for range 20 {
					if err := s.Ready(ctx); err != nil {
						t.Errorf("Ready: %v", err)
					}
					expect(t, s, ahead(newClaim(r), 10), auth.Accepted)
				}
			}
			if name != "out of memory" {
				return
			}
			for _, p := range nodes {
				fail(t, p)
			}
			eventually(t, 10*time.Second, "not ready", func() bool { return errors.Is(a.Ready(ctx), store.ErrFull) })
			if problem := a.Status(ctx).Problem; !strings.Contains(problem, "OOM") {
				t.Errorf("problem %q", problem)
			}
		})
	}
}

// For each range of slots, missing returns a name that is never written and
// whose slot is in the range.
func TestNamesOfServedSlots(t *testing.T) {
	n := names{prefix: "cg:"}
	for first := 0; first < slots; first += slots / slotRanges {
		var served slotSet
		served.add(first, first+slots/slotRanges-1)
		name := n.missing(&served)
		tag, _, _ := strings.Cut(strings.TrimPrefix(name, "cg:{"), "}")
		if name == "" || !served.has(slot(tag)) {
			t.Errorf("%s for slots from %d", fmt.Sprintf("%q", name), first)
		}
	}
}
