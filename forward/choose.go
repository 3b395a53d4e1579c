package forward

import (
	"math/bits"
	"time"
)

// choose returns the issuer for a request among those that are not in the set
// tried, and its place. It returns nil when all of them are out, with the time
// after which one may be back.
func (f *Forwarder) choose(tried uint64) (is *issuer, at int, wait time.Duration) {
	now := f.options.Now()
	for {
		var free uint64
		free, wait = f.free(tried, now)
		if free == 0 {
			return nil, 0, wait
		}
		at = f.pick(free)
		if f.issuers[at].health.claim(now) {
			return f.issuers[at], at, 0
		}
		tried |= 1 << at
	}
}

// free returns the set of issuers that may get a request, and where it is
// empty the shortest wait for one that was not tried.
func (f *Forwarder) free(tried uint64, now time.Time) (free uint64, wait time.Duration) {
	wait = -1
	for i, is := range f.issuers {
		if tried>>i&1 != 0 {
			continue
		}
		until, out := is.health.out(now)
		if !out {
			free |= 1 << i
			continue
		}
		if is.health.down.Load() && f.options.Check != nil {
			until = f.options.Check.Every
		}
		if wait < 0 || until < wait {
			wait = until
		}
	}
	return free, max(wait, time.Second)
}

// pick chooses from a set that is not empty, by the policy.
func (f *Forwarder) pick(free uint64) int {
	n := bits.OnesCount64(free)
	switch {
	case n == 1 || f.options.Policy == First:
		return bits.TrailingZeros64(free)
	case f.options.Policy == RoundRobin:
		return nth(free, int(f.turn.Add(1)%uint64(n)))
	}
	first := f.random(n)
	second := f.random(n - 1)
	if second >= first {
		second++
	}
	a, b := nth(free, first), nth(free, second)
	if f.issuers[b].outstanding.Load() < f.issuers[a].outstanding.Load() {
		return b
	}
	return a
}

// nth returns the place of the nth element of a set, counted from 0.
func nth(set uint64, n int) int {
	for range n {
		set &= set - 1
	}
	return bits.TrailingZeros64(set)
}
