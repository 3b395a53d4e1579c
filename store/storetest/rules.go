package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// A fault is a set of faults of a request, or of the state of its key.
type fault int

const (
	locked fault = 1 << iota
	badIP
	judgedLate  // rule 7, found by the judge
	settledLate // rule 7, found by Settle alone
	repeated
	badBody
	badSignature
	noScope
	belowFloor
	overLimit
	allFaults = 1<<iota - 1
)

// faultOrder is the order in which faults are answered.
var faultOrder = []struct {
	fault  fault
	reason auth.Reason
}{
	{locked, auth.KeyLocked},
	{badIP, auth.IPNotAllowed},
	{judgedLate | settledLate, auth.TimestampOutOfWindow},
	{repeated, auth.ReplayedNonce},
	{badBody, auth.BodyHashMismatch},
	{badSignature, auth.SignatureMismatch},
	{noScope, auth.ScopeMissing},
	{belowFloor, auth.ReplayFloor},
	{overLimit, auth.RateLimited},
}

func (f fault) reason() auth.Reason {
	for _, o := range faultOrder {
		if f&o.fault != 0 {
			return o.reason
		}
	}
	return auth.Accepted
}

func (f fault) rules() (failed auth.Rules) {
	for _, r := range []struct {
		fault fault
		rule  auth.Rules
	}{
		{badIP, auth.RuleIP}, {judgedLate, auth.RuleTimestamp}, {badBody, auth.RuleBodyHash},
		{badSignature, auth.RuleSignature}, {noScope, auth.RuleScope},
	} {
		if f&r.fault != 0 {
			failed |= r.rule
		}
	}
	return failed
}

// testOrder tries every combination of faults. The reason must be the first in
// the published order, and a refused request must leave no trace.
func testOrder(t *testing.T, open Factory) {
	w := newWorld(t, open)
	if w.RaiseFloor != nil {
		w.raiseFloor(t, w.Now().Add(-floorBehind))
	}
	for f := fault(0); f <= allFaults; f++ {
		if f&belowFloor != 0 && w.RaiseFloor == nil {
			continue
		}
		w.TB = t
		w.tryFaults(f)
	}
}

func (w *world) tryFaults(f fault) {
	w.Helper()
	r := w.newKey()
	limit := charge(w, "issue_card", "1/24h")
	limits := []ratelimit.Charge{limit}

	if f&overLimit != 0 {
		c := w.claim(r)
		c.Charges = limits
		w.expect(c, auth.Accepted)
	}
	c := w.claim(r)
	c.Charges = limits
	c.Failed = f.rules()
	if f&repeated != 0 {
		first := w.claim(r)
		first.Nonce = c.Nonce
		w.expect(first, auth.Accepted)
	}
	if f&settledLate != 0 {
		c.Timestamp -= 301
	}
	if f&belowFloor != 0 {
		c.ReplayFloorAhead = floorBehind + time.Minute
	}
	if f&locked != 0 {
		w.fail(r, 2)
		c.LockAfter = 2
	}
	v := w.settle(c)
	if v.Reason != f.reason() || v.Stale {
		w.Fatalf("faults %b: %v (stale %v), want %v", f, v.Reason, v.Stale, f.reason())
	}
	w.get(r.ID)
	if f&(locked|repeated|overLimit) == 0 && f != 0 {
		honest := w.claim(r)
		honest.Nonce, honest.Charges = c.Nonce, limits
		w.expect(honest, auth.Accepted)
	}
}

// testWindow tests both edges of the window of rule 7, which Settle itself checks.
func testWindow(t *testing.T, open Factory) {
	w := newWorld(t, open)
	for _, tt := range []struct {
		offset int64
		window time.Duration
		want   auth.Reason
	}{
		{0, 5 * time.Minute, auth.Accepted},
		{-300, 5 * time.Minute, auth.Accepted},
		{-301, 5 * time.Minute, auth.TimestampOutOfWindow},
		{300, 5 * time.Minute, auth.Accepted},
		{301, 5 * time.Minute, auth.TimestampOutOfWindow},
		{-60, time.Minute, auth.Accepted},
		{-61, time.Minute, auth.TimestampOutOfWindow},
		{61, time.Minute, auth.TimestampOutOfWindow},
	} {
		t.Run(fmt.Sprintf("%+d s of %v", tt.offset, tt.window), func(t *testing.T) {
			w.TB = t
			c := w.claim(w.newKey())
			c.Window = tt.window
			c.Timestamp += tt.offset
			w.expect(c, tt.want)
		})
	}
	t.Run("malformed", func(t *testing.T) {
		w.TB = t
		c := w.claim(w.newKey())
		c.Timestamp = 0
		c.Failed = auth.RuleTimestamp
		w.expect(c, auth.TimestampOutOfWindow)
	})
	t.Run("fraction of a second", func(t *testing.T) {
		w.TB = t
		c := w.claim(w.newKey())
		c.Now = c.Now.Truncate(time.Second).Add(999 * time.Millisecond)
		c.Timestamp = c.Now.Unix() - 300
		w.expect(c, auth.Accepted)
	})
}

// testRefusedWritesNothing checks that a refused request records no nonce and
// charges no bucket, for every reason.
func testRefusedWritesNothing(t *testing.T, open Factory) {
	w := newWorld(t, open)
	for _, failed := range []auth.Rules{
		auth.RuleIP, auth.RuleTimestamp, auth.RuleBodyHash, auth.RuleSignature, auth.RuleScope,
	} {
		t.Run(failed.First().String(), func(t *testing.T) {
			w.TB = t
			r := w.newKey()
			limits := []ratelimit.Charge{charge(w, "issue_card", "5/24h")}
			c := w.claim(r)
			c.Failed, c.Charges = failed, limits
			for range 7 {
				w.expect(c, failed.First())
			}
			honest := w.claim(r)
			honest.Nonce, honest.Charges = c.Nonce, limits
			if v := w.expect(honest, auth.Accepted); v.States[0].Remaining != 4 {
				t.Fatalf("Remaining %d after refused requests, want 4", v.States[0].Remaining)
			}
		})
	}
}
