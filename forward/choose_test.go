package forward

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHealthMoments is a script: what happened when, and whether the issuer is
// out then. Three failures within 10 s take it out for 10 s.
func TestHealthMoments(t *testing.T) {
	t.Parallel()
	type moment struct {
		second float64
		what   string // fail, answer, claim, unknown
		taken  bool   // of fail: it takes the issuer out; of claim: it is granted
		out    bool   // afterwards
	}
	for name, script := range map[string][]moment{
		"three in a row":                {{0, "fail", false, false}, {1, "fail", false, false}, {2, "fail", true, true}, {11.9, "claim", false, true}},
		"an answer between":             {{0, "fail", false, false}, {1, "fail", false, false}, {2, "answer", false, false}, {3, "fail", false, false}, {4, "fail", false, false}},
		"too far apart":                 {{0, "fail", false, false}, {9, "fail", false, false}, {11, "fail", false, false}, {12, "fail", false, false}, {13, "fail", true, true}},
		"one request tries":             {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {10, "claim", true, true}, {10, "claim", false, true}, {11, "answer", false, false}, {11, "claim", true, false}},
		"and fails at once":             {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {10, "claim", true, true}, {11, "fail", true, true}, {20.9, "claim", false, true}, {21, "claim", true, true}},
		"and says nothing":              {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {10, "claim", true, true}, {11, "unknown", false, false}, {11, "claim", true, true}},
		"late failures do not extend":   {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {5, "fail", false, true}, {10, "claim", true, true}},
		"a late answer brings it back":  {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {5, "answer", false, false}},
		"after an answer it counts new": {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {10, "claim", true, true}, {10, "answer", false, false}, {11, "fail", false, false}, {11, "fail", false, false}, {11, "fail", true, true}},
	} {
		h := &health{after: 3, span: 10 * time.Second}
		for i, m := range script {
			now := time.Unix(1000, 0).Add(time.Duration(m.second * float64(time.Second)))
			taken := false
			switch m.what {
			case "fail":
				taken = h.failed(now, fast)
			case "claim":
				taken = h.claim(now)
			case "answer":
				h.answered()
			case "unknown":
				h.unknown()
			}
			if out := h.out(now); out != m.out || taken != m.taken {
				t.Errorf("%s, moment %d (%s): out %v and %v, want %v and %v", name, i, m.what, out, taken, m.out, m.taken)
			}
		}
	}
	never := &health{after: -1, span: time.Second}
	for range 10 {
		if never.failed(time.Unix(0, 0), slow) {
			t.Error("an issuer is taken out although failures do not count")
		}
	}
}

// poolOf returns a forwarder that never connects, with its issuers out where
// the set says so.
func poolOf(t testing.TB, policy Policy, n int, out uint64) *Forwarder {
	t.Helper()
	o := Options{Policy: policy, Now: func() time.Time { return time.Unix(1000, 0) }}
	for range n {
		o.Issuers = append(o.Issuers, Issuer{Address: "a:1"})
	}
	f, err := newForwarder(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, is := range f.issuers {
		for range 3 * (out >> i & 1) {
			is.health.failed(time.Unix(1000-int64(i%9), 0), pace(i%2))
		}
	}
	return f
}

// TestChoose draws states of the issuers. The one that is chosen is never out
// and was never tried, and with Least it has no more outstanding requests than
// another one that could be chosen.
func TestChoose(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, maxIssuers).Draw(rt, "issuers")
		all := ^uint64(0) >> (64 - n)
		out, tried := rapid.Uint64().Draw(rt, "out")&all, rapid.Uint64().Draw(rt, "tried")&all
		policy := rapid.SampledFrom([]Policy{Least, RoundRobin, First}).Draw(rt, "policy")
		f := poolOf(t, policy, n, out)
		worst := rapid.IntRange(0, n-1).Draw(rt, "worst")
		f.issuers[worst].outstanding.Store(5)
		free := all &^ out &^ tried
		is, at := f.choose(tried)
		resort := out &^ tried & 0x5555_5555_5555_5555 // those that failed fast
		if free == 0 {
			free = resort
		}
		e := f.allOut(nil)
		switch {
		case out == all && (e.RetryAfter < time.Second || e.RetryAfter > 10*time.Second):
			rt.Fatalf("all are out for %v", e.RetryAfter)
		case free == 0 && is != nil:
			rt.Fatalf("chose %d although all are tried, or out and slow", at)
		case free == 0:
			return
		case is == nil || free>>at&1 == 0:
			rt.Fatalf("chose %d of the set %b", at, free)
		case policy == First && free&(1<<at-1) != 0:
			rt.Fatalf("chose %d although an earlier one of %b is free", at, free)
		case policy == Least && at == worst && free != 1<<worst:
			rt.Fatalf("chose %d, which has more outstanding requests than any other", at)
		}
	})
}

// TestSpread checks that each policy spreads requests as its name says.
func TestSpread(t *testing.T) {
	t.Parallel()
	count := func(policy Policy) []int {
		f := poolOf(t, policy, 4, 0b0100)
		source := rand.New(rand.NewPCG(1, 2))
		f.random = source.IntN
		counts := make([]int, 4)
		for range 3000 {
			_, at := f.choose(0)
			counts[at]++
		}
		return counts
	}
	if got := count(RoundRobin); !slices.Equal(got, []int{1000, 1000, 0, 1000}) {
		t.Errorf("round robin: %v", got)
	}
	if got := count(First); !slices.Equal(got, []int{3000, 0, 0, 0}) {
		t.Errorf("first: %v", got)
	}
	if got := count(Least); min(got[0], got[1], got[3]) < 800 || got[2] != 0 {
		t.Errorf("least, without load: %v", got)
	}
}

// closedAddr is an address at which nobody listens.
func closedAddr(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// TestFailover sends to issuers of which some cannot be reached: every request
// is answered, once. After three failures the dead ones are left alone.
func TestFailover(t *testing.T) {
	t.Parallel()
	clock := newClock()
	p := newPeer(t, answers(okAnswer))
	dead, alsoDead := closedAddr(t), closedAddr(t)
	f, seen := start(t, func(o *Options) { o.Policy, o.FailAfter, o.Now = First, 3, clock.now }, dead, alsoDead, p.addr)
	for range 5 {
		wantOK(t, get(f))
	}
	want := []Kind{KindDial, KindDial, KindDial, KindDial, KindDial, KindOut, KindDial, KindOut}
	if kinds := seen.kinds(); !slices.Equal(kinds, want) || p.requests.Load() != 5 {
		t.Errorf("%d requests arrived; the observer received %v, want %v", p.requests.Load(), kinds, want)
	}
	clock.add(10 * time.Second)
	wantOK(t, get(f))
	want = append(want, KindDial, KindOut, KindDial, KindOut)
	if kinds := seen.kinds(); !slices.Equal(kinds, want) {
		t.Errorf("after 10 s the observer received %v, want %v", kinds, want)
	}
}

// TestAllOut has no issuer left. The error comes at once and says when to try
// again. An issuer that refuses connections is asked all the same, because that
// costs no time; as soon as it is back, it answers.
func TestAllOut(t *testing.T) {
	t.Parallel()
	clock := newClock()
	dead := closedAddr(t)
	f, _ := start(t, func(o *Options) { o.FailAfter, o.Now = 3, clock.now }, dead)
	for range 2 {
		if got := get(f); kindOf(got.err) != KindDial || got.err.Forwarded || got.err.Issuer != dead || !strings.Contains(got.err.Text, "refused") {
			t.Errorf("%+v, want a refused dial", got.err)
		}
	}
	_ = get(f)
	clock.add(4 * time.Second)
	if got := get(f); kindOf(got.err) != KindAllOut || got.err.RetryAfter != 6*time.Second || got.err.Forwarded || got.err.Kind.Status() != 502 {
		t.Errorf("%+v, want all out for 6 s", got.err)
	}
	listener, err := net.Listen("tcp", dead)
	if err != nil {
		t.Skip("the address was taken meanwhile")
	}
	peerOn(t, listener, answers(okAnswer))
	wantOK(t, get(f))
}

// TestDialTimeout never completes a connection.
func TestDialTimeout(t *testing.T) {
	t.Parallel()
	clock, dials := newClock(), 0
	f, _ := start(t, func(o *Options) { o.DialTimeout, o.FailAfter, o.Now = 20*time.Millisecond, 2, clock.now }, "issuer:1")
	f.issuers[0].dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		dials++
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, want := range []Kind{KindDial, KindAllOut, KindAllOut, KindAllOut} {
		if got := get(f); kindOf(got.err) != want || want == KindDial && !strings.Contains(got.err.Text, "in time") {
			t.Errorf("%+v, want kind %v", got.err, want)
		}
	}
	if dials != 2 {
		t.Errorf("%d connections were tried, want none after the second", dials)
	}
	clock.add(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := fetchOf(ctx, f, &Request{Method: "GET", Target: "/"}); kindOf(got.err) != KindCanceled || got.err.Forwarded {
		t.Errorf("%+v, want canceled", got.err)
	}
}

// TestActiveChecks takes an issuer out and back by its answers to checks.
func TestActiveChecks(t *testing.T) {
	t.Parallel()
	clock := newClock()
	var well atomic.Bool
	var checks atomic.Int32
	p := newPeer(t, func(c *peerConn) {
		for r := c.request(); r != nil; r = c.request() {
			switch {
			case r.URL.Path != "/ready":
				c.say(okAnswer)
			case well.Load():
				checks.Add(1)
				c.say("HTTP/1.1 204 OK\r\n\r\n")
			default:
				checks.Add(1)
				c.say("HTTP/1.1 503 " + canary + "\r\nContent-Length: 4\r\n\r\nsick")
			}
		}
	})
	seen := &problems{}
	f, err := newForwarder(Options{
		Issuers: []Issuer{{Address: p.addr}}, Observer: seen.observer(), Now: clock.now,
		Check: &Check{Path: "/ready", Every: 5 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.issuers[0].shut()
	step := func(healthy bool, wantChecks int32) {
		t.Helper()
		well.Store(healthy)
		f.maintain(t.Context())
		if n := checks.Load(); n != wantChecks {
			t.Errorf("%d checks were made, want %d", n, wantChecks)
		}
	}
	step(true, 1)
	wantOK(t, get(f))
	step(false, 1)
	clock.add(5 * time.Second)
	step(false, 2)
	if got := get(f); kindOf(got.err) != KindAllOut || got.err.RetryAfter != 5*time.Second {
		t.Errorf("%+v, want all out until the next check", got.err)
	}
	clock.add(5 * time.Second)
	step(false, 3)
	if kinds := seen.kinds(); !slices.Equal(kinds, []Kind{KindCheck}) || !strings.Contains(seen.text(), "503") || strings.Contains(seen.text(), canary) {
		t.Errorf("the observer received %v, want one check:\n%s", kinds, seen.text())
	}
	clock.add(5 * time.Second)
	step(true, 4)
	wantOK(t, get(f))
	if n := p.conns.Load(); n != 1 {
		t.Errorf("%d connections, want checks and requests on one", n)
	}
}

// TestChecksRun lets the maintenance of a real forwarder make its checks, and
// ends it while one is under way.
func TestChecksRun(t *testing.T) {
	t.Parallel()
	p := newPeer(t, speaks(""))
	f, err := New(Options{Issuers: []Issuer{{Address: p.addr}}, Check: &Check{Path: "/", Timeout: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a check arrived", func() bool { return p.requests.Load() == 1 })
	f.Close()
}

// TestRollingRestart restarts two issuers in turn, under load. No request that
// was not on its way to the dying one fails.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	servers, addrs := [2]*http.Server{}, []string{}
	serve := func(i int, addr string) string {
		var listener net.Listener
		eventually(t, "the address is free", func() (ok bool) {
			var err error
			listener, err = net.Listen("tcp", addr)
			return err == nil
		})
		servers[i] = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		})}
		go servers[i].Serve(listener) //nolint:errcheck // it ends by Shutdown
		return listener.Addr().String()
	}
	for i := range servers {
		addrs = append(addrs, serve(i, "127.0.0.1:0"))
	}
	f, _ := start(t, func(o *Options) { o.FailAfter = 3 }, addrs...)
	var stop atomic.Bool
	var clients sync.WaitGroup
	var sent [4]atomic.Int32
	for i := range sent {
		clients.Go(func() {
			for ; !stop.Load(); sent[i].Add(1) {
				if got := post(f, "ok"); got.err != nil && got.err.Kind != KindClosed || got.err == nil && got.body != "ok" {
					t.Errorf("%d %q, %v", got.status, got.body, got.err)
				}
			}
		})
	}
	for range 3 {
		for i, addr := range addrs {
			if err := servers[i].Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			serve(i, addr)
			for i := range sent { // until nobody is left who has seen the old one only
				before := sent[i].Load()
				eventually(t, "each client goes on", func() bool { return sent[i].Load() > before+1 })
			}
		}
	}
	stop.Store(true)
	clients.Wait()
	for _, s := range servers {
		_ = s.Close()
	}
}
