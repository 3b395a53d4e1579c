package forward

import (
	"math/bits"
	"time"
)

// choose returns the issuer for a request among those that are not in the set
// tried, and its index. If all of them are out, it returns one that may be tried
// although it is out, or nil.
func (f *Forwarder) choose(tried uint64) (is *issuer, at int) {
	now := f.options.Now()
	free, resort := f.free(tried, now)
	for free != 0 {
		at = f.pick(free)
		if f.issuers[at].health.claim(now) {
			return f.issuers[at], at
		}
		free &^= 1 << at
	}
	if resort == 0 {
		return nil, 0
	}
	at = f.pick(resort)
	return f.issuers[at], at
}

// free returns the set of issuers that may get a request, and the set of those
// that are out but may be tried if no other is left.
func (f *Forwarder) free(tried uint64, now time.Time) (free, resort uint64) {
	for i, is := range f.issuers {
		bit := uint64(1) << i
		switch {
		case tried&bit != 0:
		case !is.health.out(now):
			free |= bit
		case is.health.resort():
			resort |= bit
		}
	}
	return free, resort
}

// allOut returns the error for a request that no issuer can take. last is the
// error of the last attempt, or nil.
func (f *Forwarder) allOut(last *Error) *Error {
	now := f.options.Now()
	e := &Error{Kind: KindAllOut, Text: "every issuer is out"}
	for _, is := range f.issuers {
		wait := is.health.wait(now)
		switch {
		case is.health.down.Load() && f.options.Check != nil:
			wait = f.options.Check.Every
		case wait <= 0 && last != nil:
			return last // this one is not out; it has only failed now
		}
		if wait = max(wait, time.Second); e.RetryAfter == 0 || wait < e.RetryAfter {
			e.RetryAfter = wait
		}
	}
	if last != nil {
		e.Text += ": " + last.Text
	}
	return e
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

// nth returns the index of the nth element of a set, counted from 0.
func nth(set uint64, n int) int {
	for range n {
		set &= set - 1
	}
	return bits.TrailingZeros64(set)
}
