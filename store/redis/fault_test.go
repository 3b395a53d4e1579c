package redis

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// Faults of the network and the server in a call. Each must give
// ErrUnavailable, and the next call after the fault must work.
var faults = map[string]redistest.Fault{
	"NOAUTH":        {Reply: "-NOAUTH Authentication required.\r\n"},
	"NOPERM":        {Reply: "-NOPERM this user has no permissions to run the 'evalsha' command\r\n"},
	"LOADING":       {Reply: "-LOADING Redis is loading the dataset in memory\r\n"},
	"READONLY":      {Reply: "-READONLY You can't write against a read only replica.\r\n"},
	"CLUSTERDOWN":   {Reply: "-CLUSTERDOWN The cluster is down\r\n"},
	"MASTERDOWN":    {Reply: "-MASTERDOWN Link with MASTER is down\r\n"},
	"BUSY":          {Reply: "-BUSY Redis is busy running a script.\r\n"},
	"TRYAGAIN":      {Reply: "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"},
	"NOREPLICAS":    {Reply: "-NOREPLICAS Not enough good replicas to write.\r\n"},
	"OOM":           {Reply: "-OOM command not allowed when used memory > 'maxmemory'.\r\n"},
	"max clients":   {Reply: "-ERR max number of clients reached\r\n"},
	"script error":  {Reply: "-ERR user_script:1: something broke\r\n"},
	"silence":       {Silent: true},
	"EOF":           {Drop: true},
	"EOF in reply":  {Drop: true, Change: func(b []byte) []byte { return b[:len(b)/2] }},
	"lost reply":    {Drop: true, Change: func([]byte) []byte { return nil }},
	"garbage":       {Reply: "HTTP/1.1 400 Bad Request\r\n\r\n"},
	"nothing":       {Reply: "$-1\r\n"},
	"another type":  {Reply: ":1\r\n"},
	"empty list":    {Reply: "*0\r\n"},
	"another call":  {Reply: "*3\r\n$5\r\nother\r\n$2\r\nok\r\n$1\r\n0\r\n"},
	"short of text": {Change: func(b []byte) []byte { return firstElementOnly(b) }},
	"another word":  {Change: func(b []byte) []byte { return bytes.Replace(b, []byte("accepted\r\n"), []byte("ACCEPTED\r\n"), 1) }},
	"few numbers":   {Change: func(b []byte) []byte { return bytes.Replace(withoutLast(b), []byte("*5\r\n"), []byte("*4\r\n"), 1) }},
	"no number":     {Change: func(b []byte) []byte { return bytes.Replace(b, []byte("accepted\r\n:"), []byte("accepted\r\n+"), 1) }},
}

// withoutLast removes the last number of a list, but does not change the length
// that the list states.
func withoutLast(reply []byte) []byte {
	i := bytes.LastIndex(reply, []byte("\r\n:"))
	if i < 0 || !bytes.Contains(reply, []byte("accepted")) {
		return reply
	}
	return reply[:i+2]
}

// firstElementOnly cuts a list of texts down to its first.
func firstElementOnly(reply []byte) []byte {
	lines := bytes.SplitN(reply, []byte("\r\n"), 4)
	if len(lines) < 4 || reply[0] != '*' {
		return reply
	}
	return append(append([]byte("*1\r\n"), bytes.Join(lines[1:3], []byte("\r\n"))...), "\r\n"...)
}

// impatient returns the options with the short timeouts of a gateway, for
// stores whose calls shall fail.
func impatient(opt Options) Options {
	opt.IOTimeout, opt.SettleTimeout, opt.ChangeTimeout = 100*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond
	return opt
}

func TestFaults(t *testing.T) {
	server := redistest.SharedSingle(t)
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, server)
			opt := Options{Options: rpc.Options{URL: p.URL()}, Prefix: random() + ":"}
			other, s := open(t, opt), open(t, impatient(opt))
			r := newKey(t, other)
			c := newClaim(r)
			expect(t, other, c, auth.Accepted)
			flows(t, s, r, 3*time.Second)
			p.Set(f)
			expectUnavailable(t, s, newClaim(r))
			if f.Change == nil { // the other calls have other replies
				for call, err := range otherCalls(s, r) {
					if !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("%s: %v, want ErrUnavailable", call, err)
					}
				}
			}
			p.Set(redistest.Faultless)
			flows(t, s, r, 3*time.Second)
			flows(t, other, r, 3*time.Second) // its checks have met the fault
			expect(t, other, again(c), auth.ReplayedNonce)
			redistest.Eventually(t, 3*time.Second, "ready again", func() bool { return s.Ready(ctx) == nil })
		})
	}
}

func otherCalls(s *Store, r *store.Record) map[string]error {
	errs := make(map[string]error)
	_, errs["Get"] = s.Get(ctx, r.ID)
	_, errs["Put"] = s.Put(ctx, newRecord(), store.PutOptions{})
	_, errs["Delete"] = s.Delete(ctx, r.ID, r.Revision)
	_, errs["List"] = s.List(ctx, "", 10)
	_, errs["Meta"] = s.Meta(ctx, "name")
	_, errs["PutMeta"] = s.PutMeta(ctx, "name", []byte("value"))
	errs["DeleteMeta"] = s.DeleteMeta(ctx, "name", []byte("value"))
	return errs
}

// A call whose reply is lost has written once: go-redis must not send it again.
func TestLostReplyIsNotRepeated(t *testing.T) {
	p := redistest.NewProxy(t, redistest.SharedSingle(t))
	s := open(t, Options{Options: rpc.Options{URL: p.URL()}, Prefix: random() + ":"})
	r := newKey(t, s)
	c := charge(t, newClaim(r), "issue_card", "10/1d")
	expect(t, s, c, auth.Accepted)
	before := p.Count("evalsha")
	lost := charge(t, newClaim(r), "issue_card", "10/1d")
	p.Set(faults["lost reply"])
	expectUnavailable(t, s, lost)
	p.Set(redistest.Faultless)
	if sent := p.Count("evalsha") - before; sent != 1 {
		t.Errorf("sent %d times, want once", sent)
	}
	expect(t, s, again(lost), auth.ReplayedNonce)
	last := charge(t, newClaim(r), "issue_card", "10/1d")
	if v := expect(t, s, last, auth.Accepted); v.States[0].Remaining != 7 {
		t.Errorf("%d left, want 7: the lost request was charged %d times", v.States[0].Remaining, 8-v.States[0].Remaining)
	}
}

// If two calls get each other's replies, neither reply is used.
func TestExchangedReplies(t *testing.T) {
	p := redistest.NewProxy(t, redistest.SharedSingle(t))
	s := open(t, Options{Options: rpc.Options{URL: p.URL()}, Prefix: random() + ":"})
	r := newKey(t, s)
	replies := make(chan []byte, 2)
	var both sync.WaitGroup
	both.Add(2)
	p.Set(redistest.Fault{Change: func(b []byte) []byte {
		if !bytes.Contains(b, []byte("accepted\r\n:")) {
			return b // not a settle
		}
		replies <- b
		both.Done()
		both.Wait()
		other := <-replies
		if bytes.Equal(other, b) {
			replies <- other
			other = <-replies
		}
		return other
	}})
	var tasks sync.WaitGroup
	var unavailable atomic.Int32
	for range 2 {
		c := newClaim(r)
		tasks.Go(func() {
			if _, err := s.Settle(ctx, c); errors.Is(err, store.ErrUnavailable) {
				unavailable.Add(1)
			}
		})
	}
	tasks.Wait()
	p.Set(redistest.Faultless)
	if n := unavailable.Load(); n != 2 {
		t.Errorf("%d of 2 exchanged replies were refused", n)
	}
}

func TestOpenBreakerAnswersAtOnce(t *testing.T) {
	p := redistest.NewProxy(t, redistest.SharedSingle(t))
	opt := Options{Options: rpc.Options{URL: p.URL()}, Prefix: random() + ":"}
	r := newKey(t, open(t, opt))
	s := open(t, impatient(opt))
	p.Set(faults["silence"])
	answeredByBreaker(t, s, r, func() int { return p.Count("evalsha") })
	if err := s.Ready(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Ready: %v, want ErrUnavailable", err)
	}
	p.Set(redistest.Faultless)
	p.Disconnect()
	flows(t, s, r, time.Second)
}

// answeredByBreaker settles until the breaker refuses a call at once, without a
// command.
func answeredByBreaker(t testing.TB, s *Store, r *store.Record, sent func() int) {
	t.Helper()
	redistest.Eventually(t, 5*time.Second, "the breaker answers", func() bool {
		before := sent()
		_, err := s.Settle(ctx, newClaim(r))
		switch {
		case err == nil:
			t.Fatal("accepted without a server")
		case errors.Is(err, rpc.ErrOpen):
			if n := sent() - before; n != 0 {
				t.Errorf("%d commands were sent all the same", n)
			}
			return true
		}
		return false
	})
}

func TestDialFaults(t *testing.T) {
	tests := map[string]rpc.Dialer{
		"refused": func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		},
		"timeout": redistest.StuckDialer,
	}
	for name, broken := range tests {
		t.Run(name, func(t *testing.T) {
			var cut atomic.Bool
			server := redistest.SharedSingle(t)
			opt := impatient(Options{Options: rpc.Options{URL: server.URL()}, Prefix: random() + ":"})
			opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if cut.Load() {
					return broken(ctx, network, addr)
				}
				return (&net.Dialer{}).DialContext(ctx, network, addr)
			}
			cut.Store(true)
			s := open(t, opt) // it starts although the server is out of reach
			if err := s.Ready(ctx); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("Ready: %v, want ErrUnavailable", err)
			}
			r := newRecord()
			expectUnavailable(t, s, newClaim(r))
			cut.Store(false)
			redistest.Eventually(t, 3*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
			put(t, open(t, Options{Options: rpc.Options{URL: opt.URL}, Prefix: opt.Prefix}), r)
			flows(t, s, r, 3*time.Second)
		})
	}
}

// If the calls of a burst have to wait for connections, the breaker stays
// closed.
func TestBurst(t *testing.T) {
	opt := Options{Options: rpc.Options{URL: redistest.SharedSingle(t).URL(), PoolSize: 1}, Prefix: random() + ":"}
	r := newKey(t, open(t, opt))
	s := open(t, impatient(opt))
	client := s.client.UniversalClient.(*redis.Client)
	var held *redis.Conn
	redistest.Eventually(t, 3*time.Second, "the only connection is held", func() bool {
		held = client.Conn()
		if held.Ping(ctx).Err() == nil {
			return true
		}
		_ = held.Close()
		return false
	})
	var tasks sync.WaitGroup
	for range 4 * manyFailures {
		tasks.Go(func() { expectUnavailable(t, s, newClaim(r)) })
	}
	tasks.Wait()
	if s.client.Breaker(rpc.TheServer).Open() {
		t.Error("the breaker is open")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	flows(t, s, r, time.Second)
}

// A Settle whose client leaves still happens as a whole.
func TestClientGone(t *testing.T) {
	s := open(t, single(t))
	r := newKey(t, s)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	c := newClaim(r)
	if v, err := s.Settle(gone, c); err != nil || v.Reason != auth.Accepted {
		t.Fatalf("%+v, %v; want an acceptance", v, err)
	}
	expect(t, s, again(c), auth.ReplayedNonce)
	if _, err := s.Get(gone, r.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("Get with a canceled context: %v", err)
	}
}

// A full server gives another error than one that does not answer.
func TestFull(t *testing.T) {
	server := redistest.Own(t, false)
	s := open(t, Options{Options: rpc.Options{URL: server.URL()}, MaxNoncesPerKey: 3})
	r := newKey(t, s)
	for range 3 {
		expect(t, s, newClaim(r), auth.Accepted)
	}
	if _, err := s.Settle(ctx, newClaim(r)); !errors.Is(err, store.ErrFull) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("at the cap of a key: %v, want ErrFull", err)
	} else if n := strings.Count(err.Error(), store.ErrUnavailable.Error()); n != 1 {
		t.Errorf("%q says %d times that the store cannot answer", err, n)
	}
	other := newKey(t, s)
	server.Do(t, "config", "set", "maxmemory", "1")
	if _, err := s.Settle(ctx, newClaim(other)); !errors.Is(err, store.ErrFull) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without memory: %v, want ErrFull", err)
	}
	server.Do(t, "config", "set", "maxmemory", "0")
	expect(t, s, newClaim(other), auth.Accepted)
}

// A store that is closed during faults leaves no goroutine.
func TestNoLeak(t *testing.T) {
	server := redistest.SharedSingle(t)
	ignore := goleak.IgnoreCurrent()
	p := redistest.NewProxy(t, server)
	for _, name := range []string{"silence", "EOF", "garbage", "EOF in reply"} {
		s, err := New(patient(Options{Options: rpc.Options{URL: p.URL()}, Prefix: random() + ":"}))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		r := newKey(t, s)
		p.Set(faults[name])
		for range 2 {
			expectUnavailable(t, s, newClaim(r))
		}
		p.Set(redistest.Faultless)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p.Disconnect()
	goleak.VerifyNone(t, ignore, goleak.IgnoreAnyFunction("github.com/card-gateway/card-gateway/tests/redistest.(*Proxy).accept"), goleak.IgnoreAnyFunction("github.com/card-gateway/card-gateway/tests/redistest.(*Proxy).serve"))
}
