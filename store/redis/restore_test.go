package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A store is emptied and its old content, with its mark, is restored on the
// same run of the server. No request that the old content lacks is accepted
// again, whether the checks or only requests have seen the empty store.
func TestOldContentRestored(t *testing.T) {
	t.Parallel()
	for topology, start := range map[string]func(t *testing.T) ([]*process, Options){
		"single": func(t *testing.T) ([]*process, Options) {
			p := own(t, false)
			return []*process{p}, Options{URL: p.url()}
		},
		"cluster": func(t *testing.T) ([]*process, Options) {
			n := ownCluster(t)
			return n, Options{ClusterAddrs: addrs(n)}
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

func testOldContentRestored(t *testing.T, servers []*process, opt Options, see func(s *Store, id string) error) {
	a, b := pair(t, opt)
	r := newKey(t, a)
	acceptAhead(t, a, r)
	old := make([]map[string]string, len(servers))
	for i, p := range servers {
		old[i] = p.dump(t)
	}
	lost := acceptAhead(t, a, r)
	for _, p := range servers {
		p.do(t, "flushall")
	}
	for _, s := range []*Store{a, b} {
		eventually(t, 5*time.Second, "seen", func() bool { return errors.Is(see(s, r.ID), errEmptied) })
	}
	for i, p := range servers {
		for name, value := range old[i] {
			p.do(t, "restore", name, 0, value)
		}
	}
	settled := 0
	eventually(t, 10*time.Second, "both serve again", func() bool {
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

// A request that sees the empty store is answered while a check goes on.
func TestEmptiedWaitsForNoCheck(t *testing.T) {
	t.Parallel()
	p := own(t, false)
	s := open(t, Options{URL: p.url()})
	r := newKey(t, s)
	s.servers.checking.Lock()
	p.do(t, "flushall")
	answered := make(chan error)
	go func() { _, err := s.Get(ctx, r.ID); answered <- err }()
	select {
	case err := <-answered:
		if !errors.Is(err, errEmptied) || !errors.Is(s.servers.view.Load().forbids(r.ID), errEmptied) {
			t.Errorf("%v, and the view %+v", err, s.servers.view.Load())
		}
		s.servers.checking.Unlock()
	case <-time.After(busy * time.Second):
		s.servers.checking.Unlock()
		t.Errorf("it waited for the check: %v", <-answered)
	}
}

// dump returns the content of the server in the form of RESTORE.
func (p *process) dump(t testing.TB) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range p.client.Keys(ctx, "*").Val() {
		value, err := p.client.Dump(ctx, name).Result()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = value
	}
	return all
}
