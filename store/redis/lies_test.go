package redis

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/masters"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// scripted makes the reply of settle.lua with the right tag, and with a beat.
func scripted(outcome string, numbers ...int64) string {
	if _, decided := auth.ReasonNamed(outcome); decided {
		numbers = append([]int64{1}, numbers...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n$3\r\nt.1\r\n$%d\r\n%s\r\n", 2+len(numbers), len(outcome), outcome)
	for _, n := range numbers {
		fmt.Fprintf(&b, ":%d\r\n", n)
	}
	return b.String()
}

// answers returns a store that gets one reply to its first script. Its view has the
// replay floor.
func answers(t testing.TB, reply string, floor int64) *Store {
	t.Helper()
	s, err := New(Options{Options: rpc.Options{URL: "redis://127.0.0.1:1", IOTimeout: time.Minute, Dialer: redistest.Answer(redistest.Hello, reply)}, SettleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	view := &masters.View{Known: "x", Floor: floor}
	s.view = func() *masters.View { return view }
	return s
}

// A reply that contradicts the claim, or itself, is an error: no request passes by
// it, none is locked or explained by it, and nothing of it is kept.
func TestRepliesThatContradict(t *testing.T) {
	now := time.Now()
	at, later := now.UnixMicro(), now.Add(time.Minute).UnixMicro()
	limited := func(c *store.Claim) { charge(t, c, "b", "10/1m") }
	none := func(*store.Claim) {}
	for name, lie := range map[string]struct {
		claim func(*store.Claim)
		reply string
	}{
		"accepted, and the signature is wrong":     {func(c *store.Claim) { c.Failed = auth.RuleSignature }, scripted("accepted", 0, at)},
		"accepted, and the timestamp is too old":   {func(c *store.Claim) { c.Timestamp -= 301 }, scripted("accepted", 0, at)},
		"accepted, and the timestamp is malformed": {func(c *store.Claim) { c.Timestamp = 0 }, scripted("accepted", 0, at)},
		"accepted, and the body was dropped":       {func(c *store.Claim) { c.BodyDropped = true }, scripted("accepted", 0, at)},
		"accepted, and a bucket lacks room":        {limited, scripted("accepted", 0, at, 1, at, 0)},
		"accepted, and the failures are not 0":     {none, scripted("accepted", 3, at)},
		"accepted at a far moment":                 {none, scripted("accepted", 0, math.MaxInt64)},
		"accepted a minute later":                  {none, scripted("accepted", 0, later)},
		"accepted at no moment":                    {none, scripted("accepted", 0, 0)},
		"accepted, and more":                       {none, scripted("accepted", 0, at, 1)},
		"accepted, and more used than there is":    {limited, scripted("accepted", 0, at, math.MaxInt64, at, 1)},
		"accepted, and less than nothing used":     {limited, scripted("accepted", 0, at, -1, at, 1)},
		"accepted, and drained at a far moment":    {limited, scripted("accepted", 0, at, 1, math.MaxInt64, 1)},
		"accepted, and fits is no bit":             {limited, scripted("accepted", 0, at, 1, at, 2)},
		"accepted under the floor":                 {func(c *store.Claim) { c.Timestamp -= 60 }, scripted("accepted", 0, at)},
		"limited, and all buckets have room":       {limited, scripted("rate_limited", 0, at, 1, at, 1)},
		"limited, and there is no bucket":          {none, scripted("rate_limited", 0, at)},
		"limited, and the signature is wrong":      {func(c *store.Claim) { limited(c); c.Failed = auth.RuleSignature }, scripted("rate_limited", 0, at, 1, at, 0)},
		"a rule that has not failed":               {none, scripted(auth.RuleSignature.First().String(), 1, 0)},
		"a later rule than the first":              {func(c *store.Claim) { c.Failed = auth.RuleBodyHash | auth.RuleSignature }, scripted(auth.RuleSignature.First().String(), 1, 0)},
		"negative failures":                        {func(c *store.Claim) { c.Failed = auth.RuleSignature }, scripted(auth.RuleSignature.First().String(), -1, 0)},
		"uncounted, and the rule does not count":   {func(c *store.Claim) { c.Failed = auth.RuleScope }, scripted(auth.RuleScope.First().String(), 1, 1)},
		"uncounted in a dry run":                   {func(c *store.Claim) { c.Failed, c.DryRun = auth.RuleSignature, true }, scripted(auth.RuleSignature.First().String(), 1, 1)},
		"locked in a dry run":                      {func(c *store.Claim) { c.DryRun = true }, scripted("key_locked", 0, 1)},
		"locked, and fewer failures than it takes": {none, scripted("key_locked", 3, 0)},
		"a floor before the request":               {none, scripted("replay_floor", 0, at-time.Hour.Microseconds())},
		"a floor, and the signature is wrong":      {func(c *store.Claim) { c.Failed = auth.RuleSignature }, scripted("replay_floor", 0, later)},
		"stale, and more":                          {none, scripted("stale", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaim(newRecord())
			lie.claim(c)
			floor := int64(0)
			if strings.HasSuffix(name, "under the floor") {
				floor = at
			}
			s := answers(t, lie.reply, floor)
			v, err := s.Settle(ctx, c)
			if !errors.Is(err, store.ErrUnavailable) || v != (store.Verdict{}) {
				t.Errorf("%+v, %v; want no verdict and ErrUnavailable", v, err)
			}
			if seen := s.servers.BeatOf(c.KeyID).Seen(); seen != 0 {
				t.Errorf("the beat %v was noted", rpc.Moment(seen))
			}
		})
	}
}

// Whatever outcome and numbers a server answers with, a request passes only if this
// gateway finds nothing against it, and the verdict is one that can be shown.
func TestVerdictOfAnyNumbers(t *testing.T) {
	outcomes := []string{"accepted", "accepted", "rate_limited", "key_locked", "replay_floor", "stale", "window", "clock", "full", "replicas", "older"}
	for _, reason := range auth.Reasons() {
		outcomes = append(outcomes, reason.String())
	}
	rapid.Check(t, func(rt *rapid.T) {
		c := newClaim(newRecord())
		c.Failed = rapid.SampledFrom([]auth.Rules{0, 0, auth.RuleSignature, auth.RuleIP | auth.RuleScope}).Draw(rt, "failed")
		c.Timestamp -= rapid.SampledFrom([]int64{0, 0, 10, 400}).Draw(rt, "age")
		c.BodyDropped, c.LimitsDryRun, c.DryRun = rapid.Bool().Draw(rt, "dropped"), rapid.Bool().Draw(rt, "limits dry run"), rapid.Bool().Draw(rt, "dry run")
		for i := range rapid.IntRange(0, 2).Draw(rt, "charges") {
			charge(t, c, fmt.Sprint(i), "10/1m")
		}
		number := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, int64(c.LockAfter), c.Now.UnixMicro(), c.Now.UnixMicro() + 1, -1, math.MinInt64, math.MaxInt64, 1 << 53}), rapid.Int64())
		count := 2 + 3*len(c.Charges)
		reply := scripted(rapid.SampledFrom(outcomes).Draw(rt, "outcome"), rapid.SliceOfN(number, 0, count+2).Draw(rt, "numbers")...)
		s := answers(t, reply, c.Now.Add(-time.Minute).UnixMicro())
		s.opt.SettleTimeout = 100 * time.Millisecond
		v, err := s.Settle(ctx, c)
		if err != nil {
			if !errors.Is(err, store.ErrUnavailable) {
				rt.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		wantPossible(rt, c, &v)
		if seen := s.servers.BeatOf(c.KeyID).Seen(); seen > c.Now.Add(3*masters.MaxSkew).UnixMicro() {
			rt.Fatalf("the beat %v was noted", rpc.Moment(seen))
		}
	})
}

// wantPossible fails if nothing that a store knows can lead to the verdict.
func wantPossible(t *rapid.T, c *store.Claim, v *store.Verdict) {
	passes := !v.Stale && v.Reason == auth.Accepted
	if passes && (c.Failed != 0 || c.Late() || c.BodyDropped || v.OverLimit && !c.LimitsDryRun) {
		t.Fatalf("%+v passes by %+v", c, v)
	}
	if v.Failures < 0 || v.RetryAfter < 0 || v.Locked && c.DryRun {
		t.Fatalf("%+v", v)
	}
	for i, state := range v.States[:min(len(c.Charges), ratelimit.MaxCharges)] {
		if v.Stale || v.Reason != auth.Accepted && v.Reason != auth.RateLimited {
			break
		}
		if state.Remaining < 0 || state.Remaining > state.Limit || state.Requests < 0 || state.Reset < 0 || state.Next < 0 || state.Retry < 0 {
			t.Fatalf("bucket %d: %+v", i, state)
		}
	}
}

// Levels of any numbers can be shown, or are an error.
func TestLevelsOfAnyNumbers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := charge(t, newClaim(newRecord()), "b", "10/1m")
		number := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, -1, c.Now.UnixMicro(), math.MinInt64, math.MaxInt64, 1 << 53}), rapid.Int64())
		at := fmt.Sprint(number.Draw(rt, "now"))
		level := fmt.Sprint(number.Draw(rt, "used"), number.Draw(rt, "at"), number.Draw(rt, "unit"))
		s := answers(t, fmt.Sprintf("*2\r\n$3\r\nt.1\r\n$%d\r\n%s %s\r\n", len(at)+1+len(level), at, level), 0)
		states, err := s.Levels(ctx, c.KeyID, c.Charges, c.Now)
		if err != nil {
			if !errors.Is(err, store.ErrUnavailable) {
				rt.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if state := states[0]; state.Remaining < 0 || state.Remaining > state.Limit || state.Reset < 0 || state.Next < 0 || state.Retry < 0 {
			rt.Fatalf("%+v", state)
		}
	})
}
