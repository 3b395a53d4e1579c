package redis

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// shifted starts a server that follows the clock.
func shifted(t *testing.T) (*redistest.Process, *harness.Clock) {
	t.Helper()
	clock, dir := harness.NewClock(t), t.TempDir()
	p := &redistest.Process{Dir: dir, Env: clock.RedisEnv(), Addr: filepath.Join(dir, "s")}
	p.Config = []string{"--dir", dir, "--save", "", "--port", "0", "--unixsocket", p.Addr}
	t.Cleanup(func() { p.Kill() })
	p.Start(t)
	return p, clock
}

// A server's clock is 500 s ahead for a while and then right again. The step
// lasts longer than the gateways need to see it, or only until its nonces have
// expired. No request is accepted twice, neither during the step nor after it.
func TestClockStepOfTheServer(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"seen by the gateways": true, "between two checks": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, clock := shifted(t)
			a, b := pair(t, Options{Options: rpc.Options{URL: p.URL(), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
			r := newKey(t, a)
			var accepted []*store.Claim
			for range 40 {
				c := newClaim(r)
				expect(t, b, c, auth.Accepted)
				accepted = append(accepted, c)
			}
			nonces := a.names.nonces(r.ID, hashOf(t, a, r))
			replayAll := func() {
				for i, c := range accepted {
					v, err := []*Store{a, b}[i%2].Settle(ctx, again(c))
					if err == nil && !v.Stale && v.Reason == auth.Accepted {
						t.Errorf("a request was accepted twice")
					}
				}
			}
			clock.Shift(500 * time.Second) // a hash of nonces lives for up to 440 s
			redistest.Eventually(t, 10*time.Second, "the nonces have expired", func() bool {
				replayAll()
				return p.Client.Exists(ctx, nonces).Val() == 0 && (!seen || a.Ready(ctx) != nil && b.Ready(ctx) != nil)
			})
			clock.Shift(0)
			replayAll()
			ready := 0
			redistest.Eventually(t, 10*time.Second, "both gateways have checked the server again", func() bool {
				replayAll()
				if a.Ready(ctx) == nil && b.Ready(ctx) == nil {
					ready++
				}
				return ready > 20
			})
			for _, s := range []*Store{a, b} {
				flows(t, s, r, 10*time.Second)
			}
			replayAll()
		})
	}
}

// hashOf returns the span of the key's latest nonces.
func hashOf(t *testing.T, s *Store, r *store.Record) int64 {
	t.Helper()
	span, err := s.client.HGet(ctx, s.names.record(r.ID), "hi").Int64()
	if err != nil {
		t.Fatal(err)
	}
	return span
}

// Two clocks that both fit may be ten seconds apart: that of a server before and after
// a step, or those of two servers in a planned failover. A hash of nonces is there as
// long as one of them reads it, so nothing is taken for lost.
func TestSmallStepBackLosesNothing(t *testing.T) {
	t.Parallel()
	p, clock := shifted(t)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	s := open(t, Options{Options: rpc.Options{URL: p.URL()}, now: now})
	r := newKey(t, s)
	settle := func() auth.Reason {
		t.Helper()
		c := newClaim(r)
		c.Now = now()
		c.Timestamp = c.Now.Unix()
		v, err := s.Settle(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return v.Reason
	}
	if got := settle(); got != auth.Accepted {
		t.Fatal(got)
	}
	span := hashOf(t, s, r)
	end := time.UnixMilli((span + 1) * spanMillis)
	shift := func(to time.Time) {
		d := time.Until(to).Truncate(time.Second)
		clock.Shift(d)
		ahead.Store(int64(d))
	}
	shift(end.Add(5 * time.Second))
	p.Client.Exists(ctx, s.names.nonces(r.ID, span)) // drops it, if its time is over
	shift(end.Add(-4 * time.Second))
	if got := settle(); got != auth.Accepted {
		t.Errorf("a correct request is answered %s after the clock went back by nine seconds", got)
	}
}
