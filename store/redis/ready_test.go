package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
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
			p := redistest.Own(t, false)
			s := open(t, Options{Options: rpc.Options{URL: p.URL(), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
			r := newKey(t, s)
			for range 2 {
				expect(t, s, newClaim(r), auth.Accepted)
				if err := s.Ready(ctx); err != nil {
					t.Errorf("Ready: %v", err)
				}
				p.Do(t, tt.trouble...)
				redistest.Eventually(t, 10*time.Second, "not ready", func() bool { return s.Ready(ctx) != nil })
				_, err := s.Settle(ctx, newClaim(r))
				if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrFull) != errors.Is(s.Ready(ctx), store.ErrFull) {
					t.Errorf("Settle: %v, Ready: %v", err, s.Ready(ctx))
				}
				p.Do(t, tt.cure...)
				redistest.Eventually(t, 10*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
			}
			if n := p.Client.Exists(ctx, s.names.prefix+"{0}:w").Val(); n != 0 {
				t.Error("the check has written something")
			}
		})
	}
}

// When one master of a cluster stops, the gateway stays ready, the keys of the
// other masters work, and the trouble is reported.
func TestDegradedCluster(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, p *redistest.Process){
		"flushed":       func(t *testing.T, p *redistest.Process) { p.Do(t, "flushall") },
		"out of memory": func(t *testing.T, p *redistest.Process) { p.Do(t, "config", "set", "maxmemory", "1") },
		"dead":          func(_ *testing.T, p *redistest.Process) { p.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := redistest.OwnCluster(t)
			opt := Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second}
			a, b := pair(t, opt)
			shared := redistest.Slot(a.names.shared()) * 3 / redistest.Slots // the master that holds the shared values
			r := keyOn(t, a, (shared+1)%3)
			acceptAhead(t, b, r)
			if list := degraded(a); len(list) != 0 {
				t.Errorf("degraded %q, want nothing", list)
			}
			fail(t, nodes[shared])
			for _, s := range []*Store{a, b} {
				redistest.Eventually(t, 20*time.Second, "degraded", func() bool { return len(degraded(s)) > 0 })
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
			redistest.Eventually(t, 10*time.Second, "not ready", func() bool { return errors.Is(a.Ready(ctx), store.ErrFull) })
			if problem := a.Status(ctx).Problem; !strings.Contains(problem, "OOM") {
				t.Errorf("problem %q", problem)
			}
		})
	}
}
