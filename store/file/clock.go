package file

import (
	"time"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// A steadyClock is the time in which limits drain: the wall clock at the start
// of the store, and from there on what the monotonic clock says. So a wall
// clock that jumps neither stops a bucket from draining nor empties it.
//
// Nonces and timestamps are measured by the wall clock, because that is what
// the timestamps of requests are compared with.
type steadyClock struct {
	start   time.Time
	nanos   int64                         // start in Unix nanoseconds
	elapsed func(time.Time) time.Duration // nil: by the readings of the monotonic clock
}

func newSteadyClock(opt *Options) steadyClock {
	start := opt.Clock()
	return steadyClock{start: start, nanos: start.UnixNano(), elapsed: opt.elapsed}
}

// at returns what the clock shows at a moment, in microseconds.
func (c *steadyClock) at(now time.Time) int64 {
	if c.elapsed != nil {
		return (c.nanos + int64(c.elapsed(now))) / 1000
	}
	return (c.nanos + int64(now.Sub(c.start))) / 1000
}

// behind returns by how many microseconds the wall clock is ahead of it. Levels
// are kept in the time of this clock, and are in journal and verdicts in that
// of the wall clock.
func (c *steadyClock) behind(now time.Time) int64 { return now.UnixMicro() - c.at(now) }

// bound sees to it that the level lies no further ahead of the moment, in
// microseconds, than the whole burst takes to drain.
func bound(l *ratelimit.Level, ch *ratelimit.Charge, now int64) {
	if l.At > now {
		l.At = min(l.At, now+ch.Capacity/ch.Drain)
	}
}
