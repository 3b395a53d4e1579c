package redis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// The most nonces of a key are live ones: those that have ended in the current span do not
// count, exactly where they are few, and by the time that has passed where they are many.
func TestFullCountsLiveNonces(t *testing.T) {
	opt := single(t)
	opt.MaxNoncesPerKey = 5
	s := open(t, opt)
	s.settling = byClaim(t, settleScript)
	r := newKey(t, s)
	begin := time.UnixMilli((time.Now().UnixMilli()/spanMillis + 1) * spanMillis)
	full := func(s *Store, r *store.Record, after time.Duration) bool {
		t.Helper()
		v, err := s.Settle(ctx, at(r, begin.Add(after), 2*time.Second, 0))
		if err != nil && !errors.Is(err, store.ErrFull) || err == nil && v.Reason != auth.Accepted {
			t.Fatalf("%+v, %v", v, err)
		}
		return err != nil
	}
	for round := range 4 {
		after := time.Duration(round) * 25 * time.Second
		for i := range 5 {
			if full(s, r, after) {
				t.Errorf("after %v it is full with %d live nonces", after, i)
			}
		}
		if !full(s, r, after) {
			t.Errorf("after %v it is not full with 5 live nonces", after)
		}
	}

	opt.MaxNoncesPerKey = 1000
	many := open(t, opt)
	many.settling = s.settling
	r = newKey(t, many)
	fields := make([]any, 0, 3000)
	for i := range int64(1500) {
		fields = append(fields, fmt.Sprintf("%016d", i), i*spanMillis/1500)
	}
	span := begin.UnixMilli() / spanMillis
	if err := s.client.HSet(ctx, s.names.nonces(r.ID, span), fields...).Err(); err != nil {
		t.Fatal(err)
	}
	setField(t, many, r.ID, "spans", fmt.Sprint(span, " 1500"))
	for after, want := range map[time.Duration]bool{10 * time.Second: true, 64 * time.Second: false} {
		if got := full(many, r, after); got != want {
			t.Errorf("1500 nonces, %v of 128 s have passed: full %v, want %v", after, got, want)
		}
	}
}

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
