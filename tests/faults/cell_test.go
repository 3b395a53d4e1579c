package faults

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A fault is what happens to a deployment, and what is promised meanwhile.
type fault struct {
	name, promise string

	// prepare is done before the gateways start, on a bench that has none yet.
	prepare func(b *bench)
	// strike begins the fault and returns what ends it; nil: it is over.
	strike func(b *bench) (end func())
	// lasts is how long the fault lasts, once struck.
	lasts time.Duration
	// restore is done after requests flow again: what died comes back.
	restore func(b *bench)

	rounds     int  // how often it strikes; 0: once
	seldom     bool // not in the short mix
	refuses401 bool // correct requests may be answered 401 meanwhile: the promise says so
	noFloor    bool // the replay floor must not rise
}

// A result is one line of the table.
type result struct {
	topology, fault, promise          string
	requests, accepted, unavailable   int
	failed, unanswered, unauthorized  int
	duplicates, replays, repliedTwice int
	gap, back                         time.Duration
	otherGap                          time.Duration  // of the second key
	otherRefused                      map[string]int // the same
}

var results struct {
	mu        sync.Mutex
	all       []*result
	histories []*histories
}

// replaysWanted is how many requests a fault is followed by, at least, that were
// sent before.
var replaysWanted = pick(28_000, 0)

// run lets a fault strike a topology and judges.
func run(t *testing.T, top topology, f fault) {
	if !full {
		t.Parallel()
	}
	b := &bench{t: t, issuer: harness.StartUpstream(t)}
	b.replayer = &replayer{t: t, others: make(map[string]int)}
	if f.prepare != nil {
		f.prepare(b)
	}
	top.start(b)
	eventually(t, "the first requests are accepted", func() bool { return b.accepts() })
	b.load = startLoad(b)
	b.flows()
	b.replayer.meanwhile(b.load)
	r := &result{topology: top.name, fault: f.name, promise: f.promise, otherRefused: make(map[string]int)}
	for range pick(max(1, f.rounds), 1) {
		r.back = max(r.back, b.strike(&f))
	}
	all := b.load.finish()
	b.replayer.everything(all, b.gateways, replaysWanted)
	b.judge(&f, r, all)
}

// accepts reports whether every gateway accepts a request of every key.
func (b *bench) accepts() bool {
	for _, g := range b.gateways {
		for _, key := range b.keys {
			if answer, err := g.Try(key.Get()); err != nil || answer.Status != http.StatusOK {
				return false
			}
		}
	}
	return true
}

// strike lets the fault happen once and returns how long requests took to flow
// again after it.
func (b *bench) strike(f *fault) (back time.Duration) {
	b.t.Helper()
	b.during(time.Second)
	end := f.strike(b)
	if f.lasts > 0 {
		b.during(f.lasts)
	}
	if end != nil {
		end()
	}
	back = b.flows()
	if f.restore != nil {
		f.restore(b)
		b.flows()
	}
	return back
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
	r.gap, r.otherGap = longestGap(all, 0), longestGap(all, 1)
	for _, s := range all {
		if f.noFloor && s.message == harness.NonceLost {
			t.Errorf("a request, sent %v before its answer, was refused under the replay floor", s.done.Sub(s.at))
		}
	}
	t.Log(r)
	results.mu.Lock()
	defer results.mu.Unlock()
	results.all = append(results.all, r)
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
	return fmt.Sprintf("%s, %s: %d requests, %d accepted, %d 503, %d other errors, %d unanswered, %d 401; %d duplicates; %d replays, %d accepted; longest gap %v, back after %v, other key's gap %v, of its requests not accepted %v",
		r.topology, r.fault, r.requests, r.accepted, r.unavailable, r.failed, r.unanswered, r.unauthorized, r.duplicates, r.replays, r.repliedTwice,
		r.gap.Round(time.Millisecond), r.back.Round(time.Millisecond), r.otherGap.Round(time.Millisecond), r.otherRefused)
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

// runAll runs faults on a topology; in the short mix only those that are quick.
func runAll(t *testing.T, top topology, faults []fault) {
	if !full {
		t.Parallel()
	}
	for _, f := range faults {
		if f.seldom && !full {
			continue
		}
		t.Run(f.name, func(t *testing.T) { run(t, top, f) })
	}
}
