package redis

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// A server whose clock was far ahead has dropped live nonces. When the clock is
// right again, requests from before are refused.
func TestFloorAfterWrongClock(t *testing.T) {
	t.Parallel()
	p, clock := shifted(t)
	clock.Shift(4 * time.Second)
	s := open(t, Options{Options: rpc.Options{URL: p.URL()}})
	r := newKey(t, s)
	c := newClaim(r)
	expect(t, s, c, auth.Accepted)
	clock.Shift(-4 * time.Second)
	redistest.Eventually(t, 10*time.Second, "the floor rises", func() bool { return check(s) == nil && s.servers.View().Highest() > 0 })
	expect(t, s, again(c), auth.ReplayedNonce)
	for seconds, want := range map[int64]auth.Reason{5: auth.ReplayFloor, 6: auth.Accepted} {
		c := newClaim(r)
		c.Timestamp = s.servers.View().Highest()/1e6 + seconds
		expect(t, s, c, want)
	}
}
