package storetest

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// floorBehind is how far behind the clock the tables of faults put the floor.
// Usual claims are above it. A claim with a wider margin is under it.
const floorBehind = 4 * time.Minute

// raiseFloor raises the replay floor of the backend and of the model. Every
// world on one backend has the same floor.
func (w *world) raiseFloor(t testing.TB, to time.Time) {
	w.Helper()
	if to.After(w.model.floor) {
		w.Setup.RaiseFloor(t, to)
		w.model.floor = to
	}
}

// testReplayFloor checks that after a loss of nonces, requests stamped up to that
// moment plus the margin are refused as ReplayFloor, and that this writes
// nothing. A request whose nonce is still known is refused as a repetition.
func testReplayFloor(t *testing.T, open Factory) {
	w := newWorld(t, open)
	if w.RaiseFloor == nil {
		t.Skip("this backend cannot lose nonces")
	}
	r := w.newKey()
	known := w.claim(r)
	w.expect(known, auth.Accepted)
	w.fail(r, 2)
	w.raiseFloor(t, w.Now())
	for range 2 { // the second time, after a new start
		w.expect(known, auth.ReplayedNonce)
		w.tryUnderFloor(r)
		w.reopen(t, Crashed)
	}
	if w.Advance == nil {
		return // the rest needs time to pass; everything else was tested
	}
	v := w.expect(w.claim(r), auth.ReplayFloor)
	w.Advance(v.RetryAfter - time.Second)
	w.expect(w.claim(r), auth.ReplayFloor)
	w.Advance(time.Second)
	w.expect(w.claim(r), auth.Accepted)
}

// tryUnderFloor tests the verdicts while the floor is at now.
func (w *world) tryUnderFloor(r *store.Record) {
	w.Helper()
	before := w.get(r.ID).Failures
	limits := []ratelimit.Charge{charge(w, random(), "2/1d")}
	c := w.claim(r)
	c.Charges = limits
	for _, offset := range []int64{-300, 0, 5} {
		c.Timestamp = c.Now.Unix() + offset
		for _, counts := range []auth.Rules{0, auth.RuleIP | auth.RuleTimestamp | auth.RuleNonce} {
			c.LockCounts = counts
			if v := w.expect(c, auth.ReplayFloor); v.Failures != before || v.RetryAfter < 5*time.Second || v.RetryAfter > 6*time.Second {
				w.Fatalf("stamped %+d s: count %d, retry after %v; want %d and what is left of the margin", offset, v.Failures, v.RetryAfter, before)
			}
		}
	}
	w.get(r.ID)
	above := w.claim(r)
	above.DryRun, above.Charges, above.Nonce = true, limits, c.Nonce
	above.Timestamp += 6
	if v := w.expect(above, auth.Accepted); v.States[0].Remaining != 1 {
		w.Fatalf("%d left after requests under the floor, want 1", v.States[0].Remaining)
	}
}
