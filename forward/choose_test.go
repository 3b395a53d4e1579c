package forward

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// poolOf returns a forwarder that never connects. The issuers in the set are
// out.
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

// TestFailover sends to issuers of which some cannot be reached: every request
// is answered, once. After three failures a dead issuer gets no more requests.
func TestFailover(t *testing.T) {
	t.Parallel()
	clock := newClock()
	p := newPeer(t, answers(okAnswer))
	dead, alsoDead := harness.FreeAddress(t), harness.FreeAddress(t)
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

// TestAllOut has no issuer left. The error comes at once, with the time after
// which to try again. An issuer that refuses connections is still tried,
// because that costs no time. As soon as it is back, it answers.
func TestAllOut(t *testing.T) {
	t.Parallel()
	clock := newClock()
	dead := harness.FreeAddress(t)
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

// TestDialTimeout dials an issuer that never completes a connection.
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
