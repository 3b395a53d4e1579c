package ratelimit

import (
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawLimit draws a limit of numbers within the bounds of [ParseLimit]. Many are
// small, so that equal rates are drawn too, and many are so large that their
// products do not fit in 64 bits.
func drawLimit(t *rapid.T, name string) Limit {
	number := func(what string, most int64) int64 {
		return rapid.OneOf(rapid.Int64Range(1, min(most, 4)), rapid.Int64Range(1, most), rapid.Int64Range(most-most/2, most)).Draw(t, name+" "+what)
	}
	l := Limit{
		Count: number("count", maxTokens), Period: time.Duration(number("seconds", int64(maxPeriod/time.Second))) * time.Second,
		Burst: number("burst", maxTokens),
	}
	if rapid.Bool().Draw(t, name+" has a cost") {
		l.Cost = number("cost", l.Burst)
	}
	return l
}

// requests returns the rate and the burst of a limit in requests.
func requests(l Limit) (rate, burst *big.Rat) {
	cost := max(l.Cost, 1)
	rate = new(big.Rat).Quo(big.NewRat(l.Count, cost), big.NewRat(int64(l.Period), 1))
	return rate, big.NewRat(l.Burst, cost)
}

// TestTighterIsExact compares the comparison with one of fractions.
func TestTighterIsExact(t *testing.T) {
	t.Parallel()
	largest := Limit{Count: maxTokens, Period: maxPeriod, Burst: maxTokens, Cost: maxTokens}
	slower := largest
	slower.Count = 600_000_000 // here the low halves of the products compare the other way round
	wantTighter(t, slower, largest)
	rapid.Check(t, func(t *rapid.T) { wantTighter(t, drawLimit(t, "a"), drawLimit(t, "b")) })
}

func wantTighter(t rapid.TB, a, b Limit) {
	rateA, burstA := requests(a)
	rateB, burstB := requests(b)
	want := rateA.Cmp(rateB)
	if want == 0 {
		want = burstA.Cmp(burstB)
	}
	if a.tighter(b) != (want < 0) || b.tighter(a) != (want > 0) {
		t.Fatalf("%v and %v compare as %d; the first is tighter: %v, the second: %v", a, b, want, a.tighter(b), b.tighter(a))
	}
}

// TestDefaultLoosensNoRow: whatever the configured default, an operation without
// a line of its own lets no more pass than its row does, at once and over time.
func TestDefaultLoosensNoRow(t *testing.T) {
	t.Parallel()
	rows := DefaultLimits()
	names := slices.Sorted(maps.Keys(rows))
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{Default: drawLimit(t, "default")}
		operation := rapid.SampledFrom(names).Draw(t, "operation")
		row, got := rows[operation], p.Limit(operation, nil, time.Time{})
		if operation == NameDefault { // no row: the configured one alone
			row = p.Default
		}
		want := p.Default
		if row.tighter(want) {
			want = row
		} else if most := row.Burst * max(want.Cost, 1); operation != NameDefault && want.Burst > most {
			want.Burst = most
		}
		rate, burst := requests(got)
		rowRate, rowBurst := requests(row)
		if got != want || rate.Cmp(rowRate) > 0 || burst.Cmp(rowBurst) > 0 {
			t.Fatalf("%s has %v; its row is %v, the configured default %v", operation, got, row, p.Default)
		}
		line := drawLimit(t, "line")
		p.Operations = map[string]Limit{operation: line}
		if got := p.Limit(operation, nil, time.Time{}); got != line {
			t.Fatalf("%s has %v instead of its line %v", operation, got, line)
		}
	})
}
