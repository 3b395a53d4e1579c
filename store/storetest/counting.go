package storetest

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

const allExtra = auth.RuleIP | auth.RuleTimestamp | auth.RuleNonce

// countingCases hold the faults of a request, the further rules that count, and
// the failure count after it.
var countingCases = []struct {
	name   string
	faults fault
	extra  auth.Rules
	want   int
}{
	{"signature", badSignature, 0, 1},
	{"body", badBody, 0, 1},
	{"body and signature", badBody | badSignature, 0, 1},
	{"late", judgedLate, 0, 0},
	{"late at settle", settledLate, 0, 0},
	{"late and unsigned", judgedLate | badSignature, 0, 1},
	{"late at settle and unsigned", settledLate | badSignature, 0, 1},
	{"late, counted", judgedLate, auth.RuleTimestamp, 1},
	{"late at settle, counted", settledLate, auth.RuleTimestamp, 1},
	{"late, others counted", judgedLate, auth.RuleIP | auth.RuleNonce, 0},
	{"late, body wrong", judgedLate | badBody, 0, 0},
	{"repeated", repeated, 0, 0},
	{"repeated and unsigned", repeated | badSignature, 0, 1},
	{"repeated, counted", repeated, auth.RuleNonce, 1},
	{"repeated, others counted", repeated, auth.RuleIP | auth.RuleTimestamp, 0},
	{"address", badIP, 0, 0},
	{"address and unsigned", badIP | badSignature, 0, 0},
	{"address and late and unsigned", badIP | judgedLate | badSignature, 0, 0},
	{"address, counted", badIP, auth.RuleIP, 1},
	{"address, others counted", badIP | badSignature, auth.RuleTimestamp | auth.RuleNonce, 0},
	{"scope", noScope, allExtra, 0},
	{"limit", overLimit, allExtra, 0},
	{"under the floor", belowFloor, allExtra, 0},
	{"under the floor and unsigned", belowFloor | badSignature, 0, 1},
	{"under the floor, body wrong", belowFloor | badBody, 0, 1},
	{"under the floor and late", belowFloor | judgedLate, 0, 0},
	{"scope and signature", noScope | badSignature, 0, 1},
}

// testCounting checks which refusals raise the failure count.
func testCounting(t *testing.T, open Factory) {
	w := newWorld(t, open)
	if w.RaiseFloor != nil {
		w.raiseFloor(t, w.Now().Add(-floorBehind))
	}
	for _, tt := range countingCases {
		t.Run(tt.name, func(t *testing.T) {
			w.TB = t
			if tt.faults&belowFloor != 0 && w.RaiseFloor == nil {
				t.Skip("this backend cannot lose nonces")
			}
			r := w.newKey()
			c := w.claim(r)
			c.Failed, c.LockCounts = tt.faults.rules(), tt.extra
			c.Charges = []ratelimit.Charge{charge(w, "issue_card", "1/24h")}
			if tt.faults&repeated != 0 {
				first := w.claim(r)
				first.Nonce = c.Nonce
				w.expect(first, auth.Accepted)
			}
			if tt.faults&overLimit != 0 {
				first := w.claim(r)
				first.Charges = c.Charges
				w.expect(first, auth.Accepted)
			}
			if tt.faults&settledLate != 0 {
				c.Timestamp -= 301
			}
			if tt.faults&belowFloor != 0 {
				c.ReplayFloorAhead = floorBehind + time.Minute
			}
			if v := w.expect(c, tt.faults.reason()); v.Failures != tt.want {
				t.Fatalf("count %d, want %d", v.Failures, tt.want)
			}
			w.get(r.ID)
		})
	}
}
