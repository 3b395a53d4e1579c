package redis

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/masters"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// ahead sets the timestamp of the claim ahead of the clock.
func ahead(c *store.Claim, seconds int64) *store.Claim {
	c.Timestamp += seconds
	return c
}

// acceptAhead returns an accepted claim. Its timestamp is ahead of the clock,
// but under the floor of a loss that follows. In a new cluster the first
// attempts may fail, because its servers become known one by one, which raises
// the floor for a few seconds.
func acceptAhead(t testing.TB, s *Store, r *store.Record) (c *store.Claim) {
	t.Helper()
	redistest.Eventually(t, 15*time.Second, "a claim is accepted", func() bool {
		c = ahead(newClaim(r), 4)
		v, err := s.Settle(ctx, c)
		return err == nil && !v.Stale && v.Reason == auth.Accepted
	})
	return c
}

func pair(t testing.TB, opt Options) (a, b *Store) {
	t.Helper()
	return open(t, opt), open(t, opt)
}

// After a restart that lost nonces, every gateway refuses earlier requests
// under the replay floor, without counting failures. New requests are accepted.
func TestRestartThatLostNonces(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false)
	a, b := pair(t, Options{Options: rpc.Options{URL: p.URL()}})
	r := newKey(t, a)
	expect(t, b, newClaim(r), auth.Accepted)
	p.Do(t, "save")
	lost := ahead(newClaim(r), 4)
	expect(t, a, lost, auth.Accepted)
	p.Kill()
	expectUnavailable(t, a, newClaim(r))
	p.Start(t)
	flows(t, a, r, 3*time.Second)
	flows(t, b, r, 3*time.Second)
	for _, s := range []*Store{a, b, open(t, Options{Options: rpc.Options{URL: p.URL()}})} {
		c := again(lost)
		c.LockCounts = auth.RuleTimestamp | auth.RuleNonce
		if v := expect(t, s, c, auth.ReplayFloor); v.Failures != 0 || v.RetryAfter < time.Second {
			t.Errorf("%+v: a refusal by the replay floor was counted, or says not when to come again", v)
		}
		expect(t, s, ahead(newClaim(r), 6), auth.Accepted)
	}
}

// A restart that lost nothing is treated in the same way, because a gateway
// cannot see the difference.
func TestRestartUnderLoad(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false, "--appendonly", "yes")
	a, b := pair(t, Options{Options: rpc.Options{URL: p.URL()}})
	r := newKey(t, a)
	h := startHammer(t, []*Store{a, b}, []*store.Record{r})
	for range 2 {
		time.Sleep(100 * time.Millisecond) // load, not time
		p.Kill()
		p.Start(t)
		flows(t, a, r, 3*time.Second)
		flows(t, b, r, 3*time.Second)
	}
	h.finish()
}

// A stall loses nothing, so there is no replay floor after it.
func TestStall(t *testing.T) {
	p := redistest.Own(t, false)
	b := open(t, Options{Options: rpc.Options{URL: p.URL()}})
	a := open(t, impatient(Options{Options: rpc.Options{URL: p.URL()}}))
	r := newKey(t, b)
	c := newClaim(r)
	expect(t, b, c, auth.Accepted)
	p.Signal(t, syscall.SIGSTOP)
	answeredByBreaker(t, a, r, func() int { return 0 })
	p.Signal(t, syscall.SIGCONT)
	flows(t, a, r, 3*time.Second)
	flows(t, b, r, 3*time.Second)
	expect(t, b, newClaim(r), auth.Accepted)
	expect(t, b, again(c), auth.ReplayedNonce)
}

func TestScriptFlushUnderLoad(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false)
	a, b := pair(t, Options{Options: rpc.Options{URL: p.URL()}})
	r := newKey(t, a)
	h := startHammer(t, []*Store{a, b}, []*store.Record{r})
	for range 50 {
		p.Do(t, "script", "flush")
		time.Sleep(2 * time.Millisecond) // load, not time
	}
	h.finish()
	if n := h.failed.Load(); n != 0 {
		t.Errorf("%d requests noticed", n)
	}
}

// After FLUSHALL a missing key does not cause a 401, even if other keys exist
// again. A key that is written again accepts no request that was stamped
// before, on any gateway.
func TestFlush(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{"single", "cluster"} {
		t.Run(topology, func(t *testing.T) {
			var nodes []*redistest.Process
			var opt Options
			if topology == "single" {
				nodes = []*redistest.Process{redistest.Own(t, false)}
				opt = Options{Options: rpc.Options{URL: nodes[0].URL()}}
			} else {
				nodes = redistest.OwnCluster(t)
				opt = Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes)}}
			}
			a, b := pair(t, opt)
			r := newKey(t, a)
			c := acceptAhead(t, b, r)
			for _, p := range nodes {
				p.Do(t, "flushall")
			}
			if v, err := a.Settle(ctx, newClaim(r)); err == nil && !v.Stale || err != nil && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%+v, %v; want stale or ErrUnavailable", v, err)
			}
			for _, s := range []*Store{a, b} {
				if _, err := s.Get(ctx, r.ID); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("Get: %v, want ErrUnavailable", err)
				}
				if _, err := s.Meta(ctx, "name"); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("Meta: %v, want ErrUnavailable", err)
				}
				redistest.Eventually(t, 3*time.Second, "not ready", func() bool { return errors.Is(s.Ready(ctx), masters.ErrEmptied) })
			}
			put(t, a, r)
			for _, s := range []*Store{a, b} {
				if v, err := s.Settle(ctx, again(c)); err == nil && v.Reason != auth.ReplayFloor || err != nil && !errors.Is(err, masters.ErrEmptied) {
					t.Errorf("at once: %+v, %v; want the replay floor or that it was emptied", v, err)
				}
				redistest.Eventually(t, 3*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
				expect(t, s, again(c), auth.ReplayFloor)
				expect(t, s, ahead(newClaim(r), 20), auth.Accepted)
				if _, err := s.Get(ctx, "ck_test_other"); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("Get of a key that may have been lost: %v, want ErrUnavailable", err)
				}
			}
			if topology == "single" { // on a cluster only the part with the key is in use again
				if _, err := open(t, opt).Get(ctx, "ck_test_other"); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("Get of an unknown key in a new gateway: %v, want ErrNotFound", err)
				}
			}
		})
	}
}

// A store is emptied and put into use again between two checks of another
// gateway. That gateway answers and writes as if it had seen both.
func TestFlushBetweenLooks(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false)
	a, b := pair(t, Options{Options: rpc.Options{URL: p.URL()}})
	r, other := newKey(t, a), newKey(t, a)
	c := newClaim(other)
	expect(t, b, c, auth.Accepted)
	p.Do(t, "flushall")
	put(t, a, r)
	if _, err := b.Get(ctx, other.ID); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Get of a key that was lost: %v, want ErrUnavailable", err)
	}
	put(t, b, other)
	expect(t, b, again(c), auth.ReplayFloor)
}

// A server that begins to evict is not used, and what it evicted raises the
// floor.
func TestEviction(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false)
	s := open(t, Options{Options: rpc.Options{URL: p.URL()}})
	r := newKey(t, s)
	c := newClaim(r)
	expect(t, s, c, auth.Accepted)
	p.Do(t, "config", "set", "maxmemory-policy", "allkeys-lru")
	redistest.Eventually(t, 3*time.Second, "unfit", func() bool {
		var unfit *rpc.UnfitError
		return errors.As(s.Ready(ctx), &unfit)
	})
	expectUnavailable(t, s, newClaim(r))
	var unfit *rpc.UnfitError
	late, err := New(patient(Options{Options: rpc.Options{URL: p.URL()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if err := late.Start(ctx); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("Start: %v, want an UnfitError that says noeviction", err)
	}
	p.Do(t, "set", "victim", strings.Repeat("x", 1<<20))
	p.Do(t, "config", "set", "maxmemory-policy", "volatile-ttl")
	p.Do(t, "config", "set", "maxmemory", "1")
	p.Client.Set(ctx, "another", "x", time.Hour) // makes it evict
	p.Do(t, "config", "set", "maxmemory", "0")
	p.Do(t, "config", "set", "maxmemory-policy", "noeviction")
	flows(t, s, r, 3*time.Second)
	expect(t, s, again(c), auth.ReplayFloor)
}

func TestUnfitServers(t *testing.T) {
	t.Parallel()
	master := redistest.SharedSentinel(t).Master
	tests := map[string]struct{ config []string }{
		"replica":  {[]string{"--replicaof", fmt.Sprintf("127.0.0.1 %d", master.Port)}},
		"password": {[]string{"--requirepass", "another"}},
		"evicting": {[]string{"--maxmemory-policy", "allkeys-lru"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var p *redistest.Process
			if name == "password" { // launch would wait for an answer
				p = redistest.Own(t, false)
				p.Do(t, "config", "set", "requirepass", "another")
			} else {
				p = redistest.Own(t, false, tt.config...)
			}
			s, err := New(patient(Options{Options: rpc.Options{URL: p.URL(), Password: "wrong"}}))
			if name != "password" {
				s, err = New(patient(Options{Options: rpc.Options{URL: p.URL()}}))
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var unfit *rpc.UnfitError
			if err := s.Start(ctx); !errors.As(err, &unfit) {
				t.Errorf("Start: %v, want an UnfitError", err)
			}
		})
	}
}

// A gateway whose clock is wrong refuses requests. Otherwise nonces would
// expire too early.
func TestClockDifference(t *testing.T) {
	s := open(t, single(t))
	r := newKey(t, s)
	for _, off := range []time.Duration{-6 * time.Second, 6 * time.Second} {
		c := newClaim(r)
		c.Now = c.Now.Add(off)
		if _, err := s.Settle(ctx, c); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "µs apart") {
			t.Errorf("%v off: %v, want ErrUnavailable from the script, which has written nothing", off, err)
		}
	}
	for _, off := range []time.Duration{-4 * time.Second, 4 * time.Second} {
		c := newClaim(r)
		c.Now = c.Now.Add(off)
		expect(t, s, c, auth.Accepted)
	}
}
