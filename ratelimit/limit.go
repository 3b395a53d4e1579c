// Package ratelimit parses rate limits, finds those that apply to a request,
// and computes from the levels of the buckets whether the request fits, how
// much is left and how long to wait. It stores nothing and reads no clock.
//
// The algorithm is GCRA, the generic cell rate algorithm, kept as a level that
// drains: at most burst + rate x t tokens are accepted in any interval t.
// Levels are whole numbers, so that the Go form and the Lua form of the
// decision agree to the bit. Moments of levels are in microseconds of Unix
// time.
//
// Begin with [Charge], the arithmetic; [Policy] finds the limits.
package ratelimit

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
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

// The bounds of a limit. Within them every charge fits in 53 bits, and its rate
// is never above the written one and at most a millionth below it.
const (
	maxTokens  = 1_000_000_000 // count, burst and cost
	maxPeriod  = 31 * 24 * time.Hour
	maxRefill  = 366 * 24 * time.Hour // an empty bucket is full again within this
	limitForm  = "COUNT/PERIOD [burst N] [cost N], such as 60/1m burst 10"
	periodForm = "a whole number and s, m, h or d, from 1s to 31d, such as 1m"
)

var periodUnits = [...]struct {
	letter byte
	length time.Duration
}{{'d', 24 * time.Hour}, {'h', time.Hour}, {'m', time.Minute}, {'s', time.Second}}

// ParseLimit parses a limit of the form `COUNT/PERIOD [burst N] [cost N]`, such
// as "60/1m burst 10 cost 5". The words are in this order, with one space
// between them. Numbers are decimal, without sign or leading zero, from 1 to
// 1000000000. The cost may not exceed the burst, and the burst may not take
// longer than 366 days to come back. An error names the text that was found and
// the one that is expected.
func ParseLimit(s string) (Limit, error) {
	l, err := parseLimit(s)
	if err != nil {
		return Limit{}, fmt.Errorf("limit %q: %w", s, err)
	}
	return l, nil
}

func parseLimit(s string) (Limit, error) {
	rate, rest, _ := strings.Cut(s, " ")
	if strings.HasSuffix(s, " ") {
		return Limit{}, fmt.Errorf("a space at the end; expected %s", limitForm)
	}
	count, period, found := strings.Cut(rate, "/")
	if !found {
		return Limit{}, fmt.Errorf("found %q without a period; expected %s", rate, limitForm)
	}
	var l Limit
	var err error
	if l.Count, err = parseTokens("count", count); err != nil {
		return Limit{}, err
	}
	if l.Period, err = parsePeriod(period); err != nil {
		return Limit{}, err
	}
	l.Burst = l.Count
	if rest, err = parseWord(rest, "burst", &l.Burst); err != nil {
		return Limit{}, err
	}
	if rest, err = parseWord(rest, "cost", &l.Cost); err != nil {
		return Limit{}, err
	}
	if rest != "" {
		return Limit{}, fmt.Errorf("found %q; expected %s", rest, limitForm)
	}
	return l, l.check()
}

// parseWord parses "word N" at the start of s into value and returns the rest.
// If s starts otherwise, it returns s and leaves value as it is.
func parseWord(s, word string, value *int64) (rest string, err error) {
	number, found := strings.CutPrefix(s, word+" ")
	if !found {
		return s, nil
	}
	number, rest, more := strings.Cut(number, " ")
	if more && rest == "" {
		return "", fmt.Errorf("a space at the end; expected %s", limitForm)
	}
	*value, err = parseTokens(word, number)
	return rest, err
}

// parseTokens returns a number of tokens, from 1 to maxTokens. An error begins
// with what.
func parseTokens(what, s string) (int64, error) {
	n, ok := parseNumber(s)
	if !ok || n > maxTokens {
		return 0, fmt.Errorf("%s %q; expected a whole number from 1 to %d without sign or leading zero", what, s, maxTokens)
	}
	return n, nil
}

func parsePeriod(s string) (time.Duration, error) {
	for _, u := range periodUnits {
		number, found := strings.CutSuffix(s, string(u.letter))
		if !found {
			continue
		}
		n, ok := parseNumber(number)
		if !ok || n > int64(maxPeriod/u.length) {
			break
		}
		return time.Duration(n) * u.length, nil
	}
	return 0, fmt.Errorf("period %q; expected %s", s, periodForm)
}

// parseNumber reads a positive decimal number of up to 10 digits, without sign
// or leading zero.
func parseNumber(s string) (int64, bool) {
	if s == "" || len(s) > 10 || s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil
}

// check returns an error if a number of the limit is out of bounds. It also
// finds faults of limits that [ParseLimit] did not make.
func (l Limit) check() error {
	switch {
	case l.Count < 1 || l.Count > maxTokens || l.Burst < 1 || l.Burst > maxTokens:
		return fmt.Errorf("count and burst must be from 1 to %d", maxTokens)
	case l.Period < time.Second || l.Period > maxPeriod || l.Period%time.Second != 0:
		return fmt.Errorf("period %v; expected %s", l.Period, periodForm)
	case l.Cost < 0:
		return errors.New("cost must be at least 1")
	case l.Cost > l.Burst:
		return fmt.Errorf("a cost of %d never fits a burst of %d; raise the burst or lower the cost", l.Cost, l.Burst)
	case float64(l.Burst)*float64(l.Period) > float64(maxRefill)*float64(l.Count):
		return fmt.Errorf("a burst of %d would take more than 366 days to come back; lower the burst or raise the rate", l.Burst)
	}
	return nil
}

// String returns the limit in the form that [ParseLimit] parses: the period in
// its largest whole unit, the burst if it differs from the count, and the cost
// if it is set.
func (l Limit) String() string {
	b := strconv.AppendInt(make([]byte, 0, 48), l.Count, 10)
	b = append(b, '/')
	for _, u := range periodUnits {
		if l.Period%u.length == 0 || u.length == time.Second {
			b = strconv.AppendInt(b, int64(l.Period/u.length), 10)
			b = append(b, u.letter)
			break
		}
	}
	if l.Burst != l.Count && l.Burst != 0 {
		b = strconv.AppendInt(append(b, " burst "...), l.Burst, 10)
	}
	if l.Cost != 0 {
		b = strconv.AppendInt(append(b, " cost "...), l.Cost, 10)
	}
	return string(b)
}
