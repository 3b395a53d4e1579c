// Package ratelimit parses rate limits, finds those that apply to a request,
// and computes from the levels of the buckets whether the request fits, how
// much is left and how long to wait. It stores nothing and reads no clock.
//
// The algorithm is GCRA, the generic cell rate algorithm, kept as a level that
// drains: at most burst + rate x t tokens are accepted in any interval t.
// Levels are whole numbers, so that the Go form and the Lua form of the
// decision agree to the bit. Moments of levels are in microseconds of Unix
// time.
package ratelimit

import (
	"math/bits"
	"time"
)

// A Limit is "Count per Period, at most Burst at once", as written in
// `60/1m burst 10`.
type Limit struct {
	Count  int64         // tokens that come back per period
	Period time.Duration // from one second to 31 days
	Burst  int64         // the bucket's capacity in tokens; [ParseLimit] sets it to Count by default
	// Cost is the number of tokens that one request of the operation takes. 0
	// means that the text names no cost: an override then keeps the configured
	// cost of the operation, and elsewhere a request costs 1.
	Cost int64
}

// tighter reports whether l is the tighter of two limits within the bounds of
// [ParseLimit], as [Policy.Limit] defines it. Of equal limits none is.
func (l Limit) tighter(other Limit) bool {
	cost, otherCost := max(l.Cost, 1), max(other.Cost, 1)
	// a/b < c/d as a x d < c x b: whole numbers, in 128 bits.
	high, low := bits.Mul64(uint64(l.Count), seconds(other.Period)*uint64(otherCost))
	otherHigh, otherLow := bits.Mul64(uint64(other.Count), seconds(l.Period)*uint64(cost))
	if high != otherHigh || low != otherLow {
		return high < otherHigh || high == otherHigh && low < otherLow
	}
	return l.Burst*otherCost < other.Burst*cost
}

func seconds(d time.Duration) uint64 { return uint64(d / time.Second) }

// MaxCharges is how many buckets one request is charged to at most: that of its
// operation, and the total of its key.
const MaxCharges = 2

// A Charge is what one request takes from one bucket. [NewCharge] makes it. Its
// numbers are those that a store needs. They fit in 53 bits, so that a Lua
// script reads them without loss.
//
// The level of a bucket is counted in units that drain Drain per microsecond.
// One token costs Unit, so the capacity is burst tokens, Capacity units, and
// the request adds Cost units.
type Charge struct {
	Bucket   string // name of the bucket within the key: an operation's name, or "total"
	Unit     int64  // units that one token costs
	Drain    int64  // units that drain in one microsecond
	Capacity int64  // highest level of the bucket, in units
	Cost     int64  // units that this request adds
}

// A Level is the state of a bucket that a store keeps. The zero value is an
// untouched bucket.
type Level struct {
	Used int64 // units in the bucket at the moment At
	At   int64 // microseconds of Unix time
	Unit int64 // Charge.Unit when it was written; a changed limit keeps the tokens spent
}

// State is what a caller may know of a bucket after a decision.
type State struct {
	Bucket    string
	Limit     int64         // capacity in tokens
	Remaining int64         // tokens left, never negative
	Requests  int64         // further requests of this cost that fit now
	Next      time.Duration // until one more token is left; 0 when the bucket is untouched
	Reset     int64         // Unix seconds, rounded up, at which all tokens are back
	Retry     time.Duration // wait until this request would fit; 0 when it did
}
