package ratelimit

import (
	"math"
	"math/bits"
	"time"
)

// maxCapacity keeps every sum of a level and a cost below 2^53, where a double
// of Lua still counts exactly.
const maxCapacity = 1 << 52

// NewCharge returns the charge of a request that costs the given number of
// tokens, for the bucket of the limit. A cost below 1 counts as 1. A cost above
// the burst counts as the whole burst, so that such a request waits until all
// tokens are back instead of for ever. An override that lowers the burst can
// cause that.
//
// The numbers of a limit that [ParseLimit] would refuse are clamped to its
// bounds.
func NewCharge(bucket string, l Limit, cost int64) Charge {
	count := min(max(l.Count, 1), maxTokens)
	burst := min(l.Burst, maxTokens)
	if burst < 1 {
		burst = count
	}
	period := min(max(l.Period, time.Second), maxPeriod).Microseconds()

	g := gcd(period, count)
	unit, drain := period/g, count/g
	if hi, lo := bits.Mul64(uint64(burst), uint64(unit)); hi != 0 || lo > maxCapacity {
		unit, drain, burst = scaleDown(period, count, burst)
	}
	return Charge{
		Bucket:   bucket,
		Unit:     unit,
		Drain:    drain,
		Capacity: burst * unit,
		Cost:     min(max(cost, 1), burst) * unit,
	}
}

// scaleDown returns units so coarse that the burst fits in maxCapacity. Their
// rate is never above count per period, so that at most burst + rate x t tokens
// are accepted in an interval t.
func scaleDown(period, count, burst int64) (unit, drain, fitting int64) {
	hi, lo := bits.Mul64(uint64(burst), uint64(period))
	capacity := (math.Ldexp(float64(hi), 64) + float64(lo)) / float64(count) // at one unit per microsecond
	drain = max(1, int64((maxCapacity-2*float64(burst))/capacity))
	hi, lo = bits.Mul64(uint64(period), uint64(drain))
	quotient, rest := bits.Div64(hi, lo, uint64(count))
	unit = int64(quotient)
	if rest != 0 {
		unit++
	}
	return unit, drain, min(burst, maxCapacity/unit)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Decide reports whether the request fits the bucket at now, in microseconds of
// Unix time, and returns the next level. If the request fits, the next level
// includes it. Otherwise the next level is the given one, drained until now.
//
// When the clock goes back, nothing drains until it has caught up. A level that
// was written under another limit keeps its tokens, rounded up, but at most the
// new capacity. It drains at the new rate.
func (c *Charge) Decide(l Level, now int64) (next Level, ok bool) {
	next = c.at(l, now)
	if next.Used+c.Cost > c.Capacity {
		return next, false
	}
	next.Used += c.Cost
	return next, true
}

// at returns the level as it is at now, in microseconds of Unix time. The steps
// and their order are those of settle.lua: convert, clamp, drain. Both convert
// in doubles and round each operation on its own.
func (c *Charge) at(l Level, now int64) Level {
	used := l.Used
	if l.Unit != c.Unit && l.Unit > 0 && used > 0 {
		product := float64(float64(used) * float64(c.Unit))
		used = c.clamp(math.Ceil(float64(product / float64(l.Unit))))
	}
	used = min(max(used, 0), c.Capacity)
	if now <= l.At {
		return Level{Used: used, At: l.At, Unit: c.Unit}
	}
	if elapsed := now - l.At; elapsed < 0 || elapsed > used/c.Drain {
		used = 0
	} else {
		used -= elapsed * c.Drain
	}
	return Level{Used: used, At: now, Unit: c.Unit}
}

func (c *Charge) clamp(used float64) int64 {
	if used >= float64(c.Capacity) {
		return c.Capacity
	}
	return int64(used)
}

// State returns the state of the bucket at now, in microseconds of Unix time,
// from its level after the decision. ok reports whether the request fits this
// bucket. When only another bucket refused the request, nothing was spent here:
// the level is the one before the decision, and ok is true.
func (c *Charge) State(l Level, now int64, ok bool) (s State) {
	c.Describe(&s, l, now, ok)
	return s
}

// Describe writes the result of [Charge.State] to s. It saves a copy.
func (c *Charge) Describe(s *State, l Level, now int64, ok bool) {
	l = c.at(l, now)
	room := c.Capacity - l.Used
	s.Bucket, s.Limit, s.Remaining = c.Bucket, c.Capacity/c.Unit, room/c.Unit
	if s.Requests = s.Remaining; c.Cost != c.Unit {
		s.Requests = room / c.Cost
	}
	s.Reset = ceilDiv(l.At+ceilDiv(l.Used, c.Drain), 1e6)
	s.Next, s.Retry = 0, 0
	if l.Used > 0 {
		s.Next = c.wait(c.Unit-(room-s.Remaining*c.Unit), l.At-now)
	}
	if over := c.Cost - room; !ok && over > 0 {
		s.Retry = c.wait(over, l.At-now)
	}
}

// wait returns how long it takes to drain the units. The clock is behind the
// level by the given number of microseconds, and must catch up first.
func (c *Charge) wait(units, behind int64) time.Duration {
	return time.Duration(ceilDiv(units, c.Drain)+behind) * time.Microsecond
}

// ceilDiv returns a/b rounded up. Both must not be negative.
func ceilDiv(a, b int64) int64 {
	if b == 1 { // most limits drain one unit per microsecond
		return a
	}
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
