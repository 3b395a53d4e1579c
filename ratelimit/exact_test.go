package ratelimit

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestChangedLimitKeepsWhatWasSpent: when the units of a bucket change, what is in
// it is rounded up, so that a change gives no part of a token away.
func TestChangedLimitKeepsWhatWasSpent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Charge {
			return NewCharge("b", Limit{
				Count: rapid.Int64Range(1, 1000).Draw(t, name+" count"), Period: time.Duration(rapid.Int64Range(1, 100).Draw(t, name+" seconds")) * time.Second,
			}, 1)
		}
		before, after := draw("before"), draw("after")
		used := rapid.Int64Range(0, before.Capacity).Draw(t, "used")
		level := after.at(Level{Used: used, At: 1, Unit: before.Unit}, 1)
		spent, kept := big.NewRat(used, before.Unit), big.NewRat(level.Used, after.Unit)
		if full := big.NewRat(after.Capacity, after.Unit); spent.Cmp(full) > 0 {
			spent = full
		}
		if kept.Cmp(spent) < 0 {
			t.Fatalf("%s tokens were spent, and after the change %s are", spent.FloatString(9), kept.FloatString(9))
		}
	})
}

// TestLevelBelowZeroGivesNothing: a store that returns a level below zero, by a
// fault, gives no more than the burst.
func TestLevelBelowZeroGivesNothing(t *testing.T) {
	t.Parallel()
	c := NewCharge("b", Limit{Count: 3, Period: time.Second}, 1)
	level := Level{Used: -100 * c.Unit, At: 1, Unit: c.Unit}
	for i := range 4 {
		next, ok := c.Decide(level, 1)
		if ok != (i < 3) {
			t.Fatalf("request %d: %v", i+1, ok)
		}
		level = next
	}
}

// TestScaledLimitIsNeverLooser: a limit whose units do not fit is scaled so that a
// token costs at least what it did.
func TestScaledLimitIsNeverLooser(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.Int64Range(1, maxPeriod.Microseconds()).Draw(t, "µs")
		count := rapid.Int64Range(1, maxTokens).Draw(t, "count")
		unit, drain, _ := scaleDown(period, count, rapid.Int64Range(1, maxTokens).Draw(t, "burst"))
		// A token drains in unit/drain µs, which must be at least period/count.
		if big.NewRat(unit, drain).Cmp(big.NewRat(period, count)) < 0 {
			t.Fatalf("%d a %d µs became a token in %d/%d µs", count, period, unit, drain)
		}
	})
}
