package redis

import "sync/atomic"

// acceptances holds when this gateway last accepted a request, for each range of
// slots, in microseconds of the server's clock. Without a cluster only the first
// range is used. What was accepted on other masters does not matter when a master is
// lost, and goes on meanwhile.
type acceptances [slotRanges]atomic.Int64

// note notes an acceptance in a range.
func (a *acceptances) note(at int, now int64) {
	for {
		last := a[at].Load()
		if now <= last || a[at].CompareAndSwap(last, now) {
			return
		}
	}
}

// latest returns the last acceptance in all ranges that have a slot of the set, or
// 0 if there was none.
func (a *acceptances) latest(of *slotSet) (last int64) {
	for i := range a {
		if of.hasOf(i) {
			last = max(last, a[i].Load())
		}
	}
	return last
}
