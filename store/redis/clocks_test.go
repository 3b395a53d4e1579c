package redis

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// A gateway whose own clock is wrong for a while refuses requests meanwhile. No
// floor rises, and the other gateway is not affected.
func TestWrongClockOfOneGateway(t *testing.T) {
	t.Parallel()
	opt := single(t)
	opt.IOTimeout, opt.SettleTimeout = time.Second, 2*time.Second
	a := open(t, opt)
	var off atomic.Int64
	opt.now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	b := open(t, opt)
	r := newKey(t, a)
	clock := func(ahead time.Duration) {
		t.Helper()
		off.Store(int64(ahead))
		if err := check(b); (err != nil) != (ahead != 0) {
			t.Errorf("%v off: %v", ahead, err)
		}
	}
	for range 3 {
		for _, off := range []time.Duration{6 * time.Second, -6 * time.Second} {
			clock(off)
			if b.Ready(ctx) == nil {
				t.Errorf("%v off: the gateway is ready", off)
			}
			c := newClaim(r)
			c.Now = c.Now.Add(off)
			expectUnavailable(t, b, c)
			expect(t, a, newClaim(r), auth.Accepted)
			clock(0)
			expect(t, b, newClaim(r), auth.Accepted)
			expect(t, a, newClaim(r), auth.Accepted)
		}
	}
	if err := check(a); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{a, b} {
		if floor := s.servers.View().Highest(); floor != 0 {
			t.Errorf("the floor rose to %v", rpc.Moment(floor))
		}
	}
}
