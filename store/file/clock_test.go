package file

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// A jumpingClock is a wall clock that can jump, and a second clock that runs
// evenly.
type jumpingClock struct {
	*testClock
	start time.Time
	ahead time.Duration // of the wall clock
}

func newJumpingBench(t *testing.T) (*bench, *jumpingClock) {
	clock := &jumpingClock{testClock: newTestClock()}
	clock.start = clock.now()
	b := newBench(t, Options{elapsed: func(now time.Time) time.Duration {
		return now.Add(-clock.ahead).Sub(clock.start)
	}})
	b.clock = clock.testClock
	return b, clock
}

// limited is a good request of the key at the wall clock's time, under a limit.
func (b *bench) limited(clock *jumpingClock, limit string) *store.Claim {
	l, err := ratelimit.ParseLimit(limit)
	if err != nil {
		b.t.Fatal(err)
	}
	c := b.claim()
	c.Now = clock.now().Add(clock.ahead)
	c.Timestamp = c.Now.Unix()
	c.Charges = []ratelimit.Charge{ratelimit.NewCharge("issue_card", l, 1)}
	return c
}

// TestLimitsWhileTheClockJumps: a wall clock that jumps, for a moment or for
// good, neither stops a caller that stays within its limit nor gives it more
// requests.
func TestLimitsWhileTheClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{120 * time.Second, time.Hour, -120 * time.Second, -time.Hour} {
		for _, lasts := range []int{3, 600} {
			t.Run(jump.String(), func(t *testing.T) {
				b, clock := newJumpingBench(t)
				for second := range 300 {
					clock.ahead = 0
					if second >= 30 && second < 30+lasts {
						clock.ahead = jump
					}
					v := b.expect(b.limited(clock, "60/1m"), auth.Accepted)
					if v.States[0].Remaining != 59 {
						t.Fatalf("second %d: %d left, want 59: one a second is what drains", second, v.States[0].Remaining)
					}
					if reset := v.States[0].Reset - clock.now().Add(clock.ahead).Unix(); reset < 0 || reset > 2 {
						t.Fatalf("second %d: full again in %d s by the wall clock, want 1", second, reset)
					}
					clock.advance(time.Second)
				}
				for range 59 {
					b.expect(b.limited(clock, "60/1m"), auth.Accepted)
				}
			})
		}
	}
}

// TestLevelFromTheFuture: a level that was written while the wall clock was
// ahead drains from the next start on. It does not wait until the clock has
// caught up.
func TestLevelFromTheFuture(t *testing.T) {
	b, clock := newJumpingBench(t)
	clock.ahead = 2 * time.Hour
	b.expect(b.limited(clock, "1/1m"), auth.Accepted)
	b.opt.elapsed = nil
	clock.ahead = 0
	b.crash(nil)
	b.clock.advance(59 * time.Second)
	b.expect(b.limited(clock, "1/1m"), auth.RateLimited)
	b.clock.advance(2 * time.Second)
	b.expect(b.limited(clock, "1/1m"), auth.Accepted)
}

// TestLevelLiesNoFurtherAheadThanItsBurst: without an even clock, as for claims
// with a time made by hand, a jump costs no more than one burst.
func TestLevelLiesNoFurtherAheadThanItsBurst(t *testing.T) {
	b, clock := newJumpingBench(t)
	b.opt.elapsed = nil
	b.crash(nil)
	clock.ahead = 24 * time.Hour
	for range 60 {
		b.expect(b.limited(clock, "60/1m"), auth.Accepted)
	}
	clock.ahead = 0
	b.expect(b.limited(clock, "60/1m"), auth.RateLimited)
	clock.advance(62 * time.Second)
	b.expect(b.limited(clock, "60/1m"), auth.Accepted)
}
