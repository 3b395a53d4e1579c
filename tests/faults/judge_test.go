package faults

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A result is one line of the table.
type result struct {
	topology, fault, promise          string
	requests, accepted, unavailable   int
	failed, unanswered, unauthorized  int
	duplicates, replays, repliedTwice int
	gap, back                         time.Duration
	recovered                         time.Duration  // after a plain client was served
	late                              time.Duration  // how late the control was
	otherGap                          time.Duration  // of the second key
	otherRefused                      map[string]int // the same
}

var results struct {
	mu        sync.Mutex
	all       []*result
	histories []*histories
}

// judge compares what was sent with what the issuer received.
func (b *bench) judge(f *fault, r *result, all []*sent) {
	t := b.t
	t.Helper()
	received := make(map[string]int)
	for _, got := range b.issuer.Took() {
		received[got.Line]++
	}
	for _, s := range all {
		r.count(s)
		n := received[s.line]
		if n > 1 {
			r.duplicates++
			t.Errorf("the issuer received %s %d times; it was answered %d %s", s.line, n, s.status, s.message)
		}
		if n == 0 && s.passed.Load() > 0 {
			t.Errorf("%s was answered 200, and the issuer has not received it", s.line)
		}
		if s.status == http.StatusUnauthorized && !f.refuses401 {
			t.Errorf("a correct request, sent to gateway %d %v before its answer, was answered 401 %s", s.gateway, s.done.Sub(s.at), s.message)
		}
	}
	r.replays, r.repliedTwice = int(b.replayer.sent.Load()), int(b.replayer.twice.Load())
	for what, n := range b.replayer.others {
		t.Errorf("%d requests that came again were answered %q", n, what)
	}
	if r.repliedTwice > 0 {
		t.Errorf("%d of %d replays were accepted", r.repliedTwice, r.replays)
	}
	r.gap, r.otherGap, r.late = longestGap(all, 0), longestGap(all, 1), b.control.latest()
	b.judgeTimes(f, r, all)
	t.Log(r)
	results.mu.Lock()
	defer results.mu.Unlock()
	results.all = append(results.all, r)
}

// judgeTimes compares how long requests were refused with what is promised. Where
// the machine is too busy for that, it does not.
func (b *bench) judgeTimes(f *fault, r *result, all []*sent) {
	t, c := b.t, b.control
	t.Helper()
	if b.servers != nil && b.starves(2) { // an answer to one command needs that at least
		t.Logf("times are not judged: timers were up to %v late", r.late)
		return
	}
	if limit := c.allowed(f.within()); r.recovered > limit {
		t.Errorf("the first 200 of every gateway came %v after a plain client was served, at most %v are allowed; timers were up to %v late", r.recovered, limit, r.late)
	}
	if limit := c.allowed(f.gap); f.gap > 0 && r.gap > limit {
		t.Errorf("for %v the keys of that server were without a 200, at most %v are allowed; timers were up to %v late", r.gap, limit, r.late)
	}
	if f.gap > 0 && (b.starves(5) || c.allowed(0) > handOver) { // a command and its reply pass five processes
		t.Logf("not judged: whether keys of other servers notice, and whether the floor rises; timers were up to %v late", r.late)
		return
	}
	if f.alone && len(r.otherRefused) > 0 {
		t.Errorf("requests for keys of other servers were answered %v", r.otherRefused)
	}
	for _, s := range all {
		if f.floor == 0 && s.message == harness.NonceLost {
			t.Errorf("a request, sent %v before its answer, was refused under the replay floor", s.done.Sub(s.at))
		}
	}
}

// count notes the answer to a request.
func (r *result) count(s *sent) {
	r.requests++
	if s.key > 0 && s.status != http.StatusOK {
		r.otherRefused[fmt.Sprintf("%d %s", s.status, s.message)]++
	}
	switch {
	case s.status == 0:
		r.unanswered++
	case s.status == http.StatusOK:
		r.accepted++
	case s.status == http.StatusUnauthorized:
		r.unauthorized++
	case s.status == http.StatusServiceUnavailable:
		r.unavailable++
	default:
		r.failed++
	}
}

func (r *result) String() string {
	return fmt.Sprintf("%s, %s: %d requests, %d accepted, %d 503, %d other errors, %d unanswered, %d 401; %d duplicates; %d replays, %d accepted; longest gap %v, back after %v, %v after a plain client, other key's gap %v, of its requests not accepted %v; timers up to %v late",
		r.topology, r.fault, r.requests, r.accepted, r.unavailable, r.failed, r.unanswered, r.unauthorized, r.duplicates, r.replays, r.repliedTwice,
		r.gap.Round(time.Millisecond), r.back.Round(time.Millisecond), r.recovered.Round(time.Millisecond), r.otherGap.Round(time.Millisecond), r.otherRefused, r.late.Round(time.Millisecond))
}

// longestGap returns how long a key was without an acceptance on any one
// gateway, at the longest.
func longestGap(all []*sent, key int) (longest time.Duration) {
	times := make(map[int][]time.Time)
	for _, s := range all {
		if s.key == key && s.status == http.StatusOK && s.ahead == 0 {
			times[s.gateway] = append(times[s.gateway], s.done)
		}
	}
	for _, accepted := range times {
		slices.SortFunc(accepted, time.Time.Compare)
		for i := range accepted[1:] {
			longest = max(longest, accepted[i+1].Sub(accepted[i]))
		}
	}
	return longest
}
