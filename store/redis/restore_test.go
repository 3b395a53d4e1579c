package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/redis/masters"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// A store is emptied and its old content, with its mark, is restored on the
// same run of the server. No request that the old content lacks is accepted
// again, whether the checks or only requests have seen the empty store.
func TestOldContentRestored(t *testing.T) {
	t.Parallel()
	for topology, start := range map[string]func(t *testing.T) ([]*redistest.Process, Options){
		"single": func(t *testing.T) ([]*redistest.Process, Options) {
			p := redistest.Own(t, false)
			return []*redistest.Process{p}, Options{Options: rpc.Options{URL: p.URL()}}
		},
		"cluster": func(t *testing.T) ([]*redistest.Process, Options) {
			n := redistest.OwnCluster(t)
			return n, Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(n)}}
		},
	} {
		for seenBy, see := range map[string]func(s *Store, id string) error{
			"checks":   func(s *Store, _ string) error { return s.Ready(ctx) },
			"requests": func(s *Store, id string) error { _, err := s.Get(ctx, id); return err },
		} {
			t.Run(topology+", seen by "+seenBy, func(t *testing.T) {
				servers, opt := start(t)
				opt.IOTimeout, opt.SettleTimeout = time.Second, 2*time.Second
				testOldContentRestored(t, servers, opt, see)
			})
		}
	}
}

func testOldContentRestored(t *testing.T, servers []*redistest.Process, opt Options, see func(s *Store, id string) error) {
	a, b := pair(t, opt)
	r := newKey(t, a)
	acceptAhead(t, a, r)
	old := make([]map[string]string, len(servers))
	for i, p := range servers {
		old[i] = p.Dump(t)
	}
	time.Sleep(2 * time.Millisecond) // the beat counts half milliseconds
	lost := acceptAhead(t, a, r)
	for _, p := range servers {
		p.Do(t, "flushall")
	}
	for _, s := range []*Store{a, b} {
		redistest.Eventually(t, 5*time.Second, "seen", func() bool { return errors.Is(see(s, r.ID), masters.ErrEmptied) })
	}
	for i, p := range servers {
		for name, value := range old[i] {
			p.Do(t, "restore", name, 0, value, "replace")
		}
	}
	settled := 0
	redistest.Eventually(t, 10*time.Second, "both serve again", func() bool {
		for _, s := range []*Store{a, b} {
			v, err := s.Settle(ctx, again(lost))
			if err == nil && v.Reason != auth.ReplayFloor && v.Reason != auth.ReplayedNonce {
				t.Fatalf("%+v, want the replay floor", v)
			}
			if err == nil {
				settled++
			}
		}
		return settled > 10 && a.Ready(ctx) == nil && b.Ready(ctx) == nil
	})
	expect(t, a, ahead(newClaim(r), 20), auth.Accepted)
}
