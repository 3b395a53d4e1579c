package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
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
		"*3\r\n$3\r\nt.1\r\n$6\r\nserver\r\n$1\r\nx\r\n", "*3\r\n$3\r\nt.1\r\n$6\r\nwindow\r\n:3600\r\n", "*3\r\n$3\r\nt.1\r\n$5\r\nclock\r\n:1\r\n", "*3\r\n$3\r\nt.1\r\n$4\r\nfull\r\n:1\r\n", "*3\r\n$3\r\nt.1\r\n$8\r\nreplicas\r\n:1\r\n",
		"$8\r\naccepted\r\n", "-ERR evil\r\n", "-NOSCRIPT a\r\n", "-TRYAGAIN a\r\n", "-OOM a\r\n", "-MOVED 1 evil:1\r\n", ":1\r\n", "+OK\r\n", "%1\r\n+a\r\n:1\r\n", "(99999999999999999999\r\n", "_\r\n", "#t\r\n", ",inf\r\n", ">1\r\n+a\r\n:1\r\n", "",
		"*30000000\r\n", "$300000000\r\nabc", "%1\r\n*0\r\n:1\r\n", "%1\r\n-ERR a\r\n:1\r\n", "|1\r\n+a\r\n:1\r\n:1\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n", "*?\r\n",
	} {
		f.Add(seed)
	}
	settle := func(t testing.TB, reply string, timeout time.Duration) (store.Verdict, error) {
		s := answeredBy(t, hello, reply)
		s.opt.SettleTimeout = timeout
		s.tags = tags{prefix: "t.", next: new(atomic.Uint64)}
		s.servers.view.Store(&view{known: "x"})
		return s.Settle(ctx, c)
	}
	if v, err := settle(f, yes, time.Minute); err != nil || v.Reason != auth.Accepted || v.Stale {
		f.Fatalf("%v, %v; want accepted", v, err)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		before := allocated()
		v, err := settle(t, reply, 200*time.Millisecond)
		wantBounded(t, allocated()-before)
		full := strings.Contains(reply, "t.1") && strings.Contains(reply, "accepted") && strings.Count(reply, "\r\n") > 7
		switch {
		case err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull):
			t.Fatalf("an error of no kind: %v", err)
		case err == nil && !v.Stale && v.Reason == auth.Accepted && !full:
			t.Fatalf("%q is accepted", reply)
		}
	})
}

// FuzzHello: a server may answer any bytes to the first command of a connection.
func FuzzHello(f *testing.F) {
	for _, seed := range []string{hello, "*30000000\r\n", "%9000000\r\n", "-ERR unknown command\r\n", "-NOAUTH\r\n", "+OK\r\n", "*3\r\n+a\r\n:1\r\n+b\r\n", "%1\r\n*0\r\n:1\r\n", ">2\r\n+a\r\n:1\r\n" + hello, "HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x01\x00\x02\x02F", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		s := answeredBy(t, reply)
		before := allocated()
		_ = s.client.Ping(t.Context()).Err() // nothing rests on it
		wantBounded(t, allocated()-before)
	})
}

const hello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"

// answeredBy returns a store whose server answers each command of a connection with
// the next of some fixed bytes, and ends the connection.
func answeredBy(t testing.TB, answers ...string) *Store {
	t.Helper()
	s, err := New(Options{URL: "redis://127.0.0.1:1", IOTimeout: time.Minute, dialer: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			command := make([]byte, bufferSize)
			for _, answer := range answers {
				if _, err := there.Read(command); err != nil {
					return
				}
				if _, err := io.WriteString(there, answer); err != nil {
					return
				}
			}
		}()
		return here, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// FuzzInfo: any text in place of INFO is read or refused.
func FuzzInfo(f *testing.F) {
	for _, seed := range []string{
		"", "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\nrun_id:a\r\nmaster_replid:b\r\n", "role:slave", "redis_version:", "redis_version:99999999999999999999\nrole:master",
		"slave0:ip=127.0.0.1,port=1,state=online,offset=1,lag=-1\r\nrole:master", "connected_slaves:-1", ":::\r\n", "evicted_keys:-1\r\nrole:master\r\nredis_version:7.2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		info, err := parseInfo("a:1", reply)
		if err != nil {
			return
		}
		if err := info.unfit(); err == nil && !strings.Contains(reply, "noeviction") {
			t.Fatalf("%q is fit, and does not say that it evicts nothing", reply)
		}
		_ = info.refusing()
	})
}
