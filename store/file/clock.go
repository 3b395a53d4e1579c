package file

import (
	"time"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// A steadyClock is the clock by which limits drain: the wall clock at the start
// of the store, plus the monotonic time since then. So when the wall clock
// jumps, a bucket neither stops draining nor drains at once.
//
// Nonces and timestamps use the wall clock, because the timestamps of requests
// are compared with it.
type steadyClock struct {
	start   time.Time
	nanos   int64                         // start in Unix nanoseconds
	elapsed func(time.Time) time.Duration // nil: by the readings of the monotonic clock
}

func newSteadyClock(opt *Options) steadyClock {
	start := opt.Clock()
	return steadyClock{start: start, nanos: start.UnixNano(), elapsed: opt.elapsed}
}

// at returns the time of this clock at a moment, in microseconds.
func (c *steadyClock) at(now time.Time) int64 {
	if c.elapsed != nil {
		return (c.nanos + int64(c.elapsed(now))) / 1000
	}
	return (c.nanos + int64(now.Sub(c.start))) / 1000
}

// behind returns by how many microseconds this clock is behind the wall clock.
// Levels in memory are in the time of this clock. In the journal and in verdicts
// they are in the time of the wall clock.
func (c *steadyClock) behind(now time.Time) int64 { return now.UnixMicro() - c.at(now) }

// bound limits how far the time of the level is ahead of now, in microseconds:
// at most as long as the whole burst takes to drain.
func bound(l *ratelimit.Level, ch *ratelimit.Charge, now int64) {
	if l.At > now {
		l.At = min(l.At, now+ch.Capacity/ch.Drain)
	}
}
