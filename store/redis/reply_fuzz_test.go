package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// FuzzReply: a server may answer any bytes to the settling script. A request is
// accepted only where the reply says so in full, and an error says that the store
// is unavailable.
func FuzzReply(f *testing.F) {
	const at = 1750000000000000
	c := charge(f, newClaim(newRecord()), "b", "10/1m")
	c.Now, c.Timestamp = time.UnixMicro(at), at/1e6
	yes := scripted("accepted", 0, at, c.Charges[0].Cost, at, 1)
	for _, seed := range []string{
		yes, "*3\r\n$3\r\nt.1\r\n$8\r\naccepted\r\n:0\r\n", "*2\r\n$3\r\nt.1\r\n$8\r\naccepted\r\n", "*1\r\n$3\r\nt.1\r\n", "*0\r\n", "*-1\r\n",
		"*7\r\n$3\r\nt.2\r\n$8\r\naccepted\r\n:0\r\n:1750000000000000\r\n:1\r\n:2\r\n:1\r\n", "*7\r\n$3\r\nt.1\r\n$8\r\naccepted\r\n:0\r\n$1\r\n1\r\n:1\r\n:2\r\n:1\r\n",
		"*7\r\n$3\r\nt.1\r\n$12\r\nrate_limited\r\n:0\r\n:-9223372036854775808\r\n:9223372036854775807\r\n:-2\r\n:0\r\n",
		"*4\r\n$3\r\nt.1\r\n$10\r\nkey_locked\r\n:50\r\n:1\r\n", "*4\r\n$3\r\nt.1\r\n$12\r\nreplay_floor\r\n:0\r\n:9223372036854775807\r\n", "*3\r\n$3\r\nt.1\r\n$5\r\nstale\r\n:1\r\n",
		"*3\r\n$3\r\nt.1\r\n$6\r\nserver\r\n$1\r\nx\r\n", "*3\r\n$3\r\nt.1\r\n$6\r\nwindow\r\n:3600\r\n", "*3\r\n$3\r\nt.1\r\n$5\r\nclock\r\n:1\r\n", "*3\r\n$3\r\nt.1\r\n$4\r\nfull\r\n:1\r\n", "*3\r\n$3\r\nt.1\r\n$8\r\nreplicas\r\n:1\r\n", "*3\r\n$3\r\nt.1\r\n$5\r\nolder\r\n:1\r\n",
		"$8\r\naccepted\r\n", "-ERR evil\r\n", "-NOSCRIPT a\r\n", "-TRYAGAIN a\r\n", "-OOM a\r\n", "-MOVED 1 evil:1\r\n", ":1\r\n", "+OK\r\n", "%1\r\n+a\r\n:1\r\n", "(99999999999999999999\r\n", "_\r\n", "#t\r\n", ",inf\r\n", ">1\r\n+a\r\n:1\r\n", "",
		"*30000000\r\n", "$300000000\r\nabc", "%1\r\n*0\r\n:1\r\n", "%1\r\n-ERR a\r\n:1\r\n", "|1\r\n+a\r\n:1\r\n:1\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n", "*?\r\n",
	} {
		f.Add(seed)
	}
	settle := func(t testing.TB, reply string, timeout time.Duration) (store.Verdict, error) {
		s := answers(t, reply, 0)
		s.opt.SettleTimeout = timeout
		return s.Settle(ctx, c)
	}
	if v, err := settle(f, yes, time.Minute); err != nil || v.Reason != auth.Accepted || v.Stale {
		f.Fatalf("%v, %v; want accepted", v, err)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		before := redistest.Allocated()
		v, err := settle(t, reply, 200*time.Millisecond)
		redistest.WantBounded(t, redistest.Allocated()-before)
		full := strings.Contains(reply, "t.1") && strings.Contains(reply, "accepted") && strings.Count(reply, "\r\n") > 7
		switch {
		case err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull):
			t.Fatalf("an error of no kind: %v", err)
		case err == nil && !v.Stale && v.Reason == auth.Accepted && !full:
			t.Fatalf("%q is accepted", reply)
		}
	})
}
