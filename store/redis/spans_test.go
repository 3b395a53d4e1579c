package redis

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// Nonces of a key are removed too early, between two checks of the server, in
// any way. No request whose nonce is missing is accepted again, and new
// requests are accepted a little later. Other keys are not affected.
func TestLostNoncesFenceTheirKey(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, p *redistest.Process, nonces string){
		"removed": func(t *testing.T, p *redistest.Process, nonces string) { p.Do(t, "del", nonces) },
		"an older copy": func(t *testing.T, p *redistest.Process, nonces string) {
			for field := range p.Client.HGetAll(ctx, nonces).Val() {
				p.Do(t, "hdel", nonces, field)
				break
			}
		},
		"expired by a wrong clock": func(t *testing.T, p *redistest.Process, nonces string) {
			p.Do(t, "pexpire", nonces, 1)
			redistest.Eventually(t, 5*time.Second, "it is gone", func() bool { return p.Client.Exists(ctx, nonces).Val() == 0 })
		},
		"evicted": func(t *testing.T, p *redistest.Process, nonces string) {
			p.Do(t, "config", "set", "maxmemory-policy", "volatile-ttl", "maxmemory", "1")
			p.Client.Set(ctx, "another", "x", time.Hour) // makes it evict
			p.Do(t, "config", "set", "maxmemory", "0", "maxmemory-policy", "noeviction")
			redistest.Eventually(t, 5*time.Second, "it is gone", func() bool { return p.Client.Exists(ctx, nonces).Val() == 0 })
		},
		"after the key was imported again": func(t *testing.T, p *redistest.Process, nonces string) { p.Do(t, "del", nonces) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.Own(t, false)
			s, err := New(Options{Options: rpc.Options{URL: p.URL(), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			r, other := newKey(t, s), newKey(t, s)
			var accepted []*store.Claim
			for range 3 {
				c := newClaim(r)
				expect(t, s, c, auth.Accepted)
				accepted = append(accepted, c)
			}
			c := newClaim(other)
			expect(t, s, c, auth.Accepted)
			if name == "after the key was imported again" {
				if _, err := s.Delete(ctx, r.ID, r.Revision); err != nil {
					t.Fatal(err)
				}
				put(t, s, r)
			}
			span := p.Client.HGet(ctx, s.names.record(r.ID), "hi").Val()
			lose(t, p, s.names.prefix+"{"+r.ID+"}:n"+span)
			for range 2 { // the second time, the floor is stored
				fenced := false
				for _, c := range accepted {
					v, err := s.Settle(ctx, again(c))
					if err != nil || v.Failures != 0 || v.Reason != auth.ReplayFloor && v.Reason != auth.ReplayedNonce {
						t.Errorf("%+v, %v; want the replay floor, or the nonce known, and no count", v, err)
					}
					fenced = fenced || v.Reason == auth.ReplayFloor
				}
				if !fenced {
					t.Error("the key is not fenced")
				}
			}
			expect(t, s, ahead(newClaim(r), 10), auth.Accepted)
			if v, err := s.Settle(ctx, again(accepted[0])); err != nil || v.Reason == auth.Accepted {
				t.Errorf("%+v, %v", v, err)
			}
			if name != "evicted" {
				expect(t, s, again(c), auth.ReplayedNonce)
				expect(t, s, newClaim(other), auth.Accepted)
			}
		})
	}
}
