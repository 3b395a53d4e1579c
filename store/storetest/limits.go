package storetest

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// testLimits checks that a request spends from all its buckets or from none, and
// that a refused request may be sent again with the same nonce.
func testLimits(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	narrow, total := charge(w, "issue_card", "2/1d"), charge(w, "total", "50/1d")

	var refused [16]byte
	for i, want := range []auth.Reason{auth.Accepted, auth.Accepted, auth.RateLimited, auth.RateLimited} {
		c := w.claim(r)
		c.Charges = []ratelimit.Charge{narrow, total}
		v := w.expect(c, want)
		spent := int64(min(i+1, 2))
		for j, capacity := range []int64{2, 50} {
			if s := v.States[j]; s.Remaining != capacity-spent || s.Limit != capacity {
				t.Fatalf("request %d, bucket %s: %d of %d left, want %d of %d", i, s.Bucket, s.Remaining, s.Limit, capacity-spent, capacity)
			}
		}
		if v.OverLimit != (want == auth.RateLimited) {
			t.Fatalf("request %d: over limit %v", i, v.OverLimit)
		}
		refused = c.Nonce
	}
	c := w.claim(r)
	c.Nonce, c.Charges = refused, []ratelimit.Charge{charge(w, "get_card", "100/1d"), total}
	w.expect(c, auth.Accepted)
	w.expect(c, auth.ReplayedNonce)

	// The buckets of another key are its own.
	c = w.claim(w.newKey())
	c.Charges = []ratelimit.Charge{narrow}
	if v := w.expect(c, auth.Accepted); v.States[0].Remaining != 1 {
		t.Fatalf("another key has %d left, want 1", v.States[0].Remaining)
	}

	// A cost above one.
	for _, text := range []string{"9/1d cost 5", "7/1d burst 5 cost 5"} {
		c = w.claim(w.newKey())
		c.Charges = []ratelimit.Charge{charge(w, "a", "9/1d"), charge(w, "b", text)}
		w.expect(c, auth.Accepted)
		c.Nonce = nonce()
		w.expect(c, auth.RateLimited)
	}
}

// testLimitsRefill checks the verdicts of a bucket at a script of moments.
func testLimitsRefill(t *testing.T, open Factory) {
	w := newWorld(t, open)
	if w.Advance == nil || !w.ClaimClock {
		t.Skip("this backend does not decide limits by the clock of the claims, or that clock cannot be moved")
	}
	r := w.newKey()
	limit := charge(w, "issue_card", "60/1m burst 2")
	for i, m := range []struct {
		wait time.Duration
		want auth.Reason
	}{
		{0, auth.Accepted}, {0, auth.Accepted}, {0, auth.RateLimited},
		{999 * time.Millisecond, auth.RateLimited},
		{time.Millisecond, auth.Accepted}, {0, auth.RateLimited},
		{time.Hour, auth.Accepted}, {0, auth.Accepted}, {0, auth.RateLimited},
	} {
		w.Advance(m.wait)
		c := w.claim(r)
		c.Charges = []ratelimit.Charge{limit}
		v := w.settle(c)
		if v.Reason != m.want {
			t.Fatalf("moment %d: %v, want %v", i, v.Reason, m.want)
		}
	}
}

// testLimitsDryRun checks that with LimitsDryRun limits are decided and reported,
// but refuse nothing.
func testLimitsDryRun(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	wide, narrow := charge(w, "total", "10/1d"), charge(w, "issue_card", "1/1d")
	for i := range 3 {
		c := w.claim(r)
		c.LimitsDryRun, c.Charges = true, []ratelimit.Charge{wide, narrow}
		v := w.expect(c, auth.Accepted)
		if v.OverLimit != (i > 0) || v.States[0].Remaining != 9 || v.States[1].Remaining != 0 {
			t.Fatalf("request %d: %+v", i, v)
		}
		w.expect(c, auth.ReplayedNonce)
	}
}

// testLimitChanged checks that spent tokens stay spent when a limit changes.
func testLimitChanged(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	for _, limit := range []string{"10/1d", "10/1d", "20/1d", "20/12h burst 4", "3/1d", "100/2d"} {
		c := w.claim(r)
		c.Charges = []ratelimit.Charge{charge(w, "issue_card", limit)}
		w.settle(c)
	}
}

// testLevels checks that the levels of any buckets can be read, are those that
// Settle left, and are not changed by reading.
func testLevels(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	narrow, total, unused := charge(w, "issue_card", "2/1d"), charge(w, "total", "50/1d cost 5"), charge(w, "get_card", "9/1d")
	all := []ratelimit.Charge{unused, total, narrow}
	w.levels(r.ID, all)
	for range 3 { // the third is refused
		c := w.claim(r)
		c.Charges = []ratelimit.Charge{narrow, total}
		w.settle(c)
		w.levels(r.ID, all)
	}
	if states := w.levels(r.ID, all); states[0].Remaining != 9 || states[1].Remaining != 40 || states[2].Remaining != 0 {
		t.Fatalf("after two requests the levels are %+v", states)
	}
	w.levels(r.ID, []ratelimit.Charge{charge(w, "issue_card", "20/12h burst 4")})
	w.levels(r.ID, nil)
	if w.Advance != nil {
		w.Advance(13 * time.Hour)
		w.levels(r.ID, all)
	}
	w.levels(w.newKey().ID, all)
	w.delete(r)
	w.levels(r.ID, all)
	w.levels("ck_test_"+random(), all)
}

// levels returns what Levels reports, after comparing it with the model.
func (w *world) levels(id string, charges []ratelimit.Charge) []ratelimit.State {
	w.Helper()
	now := w.Now()
	got, err := w.Backend.Levels(ctx, id, charges, now)
	if err != nil {
		w.Fatalf("Levels: %v", err)
	}
	want := w.model.levels(id, charges, now)
	if len(got) != len(want) {
		w.Fatalf("%d states for %d charges", len(got), len(charges))
	}
	for i := range got {
		if !w.ClaimClock {
			w.alignTimes(&got[i], want[i])
		}
		if got[i] != want[i] {
			w.Fatalf("the level is\n%+v\nwant\n%+v", got[i], want[i])
		}
	}
	return got
}
