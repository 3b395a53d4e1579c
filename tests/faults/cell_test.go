package faults

import (
	"net/http"
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

	rounds     int           // how often it strikes; 0: once
	seldom     bool          // not in the short mix
	refuses401 bool          // correct requests may be answered 401 meanwhile: the promise says so
	floor      time.Duration // the replay floor may rise: how long that takes; 0: it must not
	gap        time.Duration // the longest without a 200 for the keys of that server; 0: not bounded
	alone      bool          // keys of other servers do not notice
}

const (
	// recovery is how long the first 200 of every gateway may take, from the moment
	// at which a plain client of the servers is served.
	recovery = time.Second
	// afterLoss is the same where the replay floor rises: replay_floor_ahead, and a
	// second because stamps are whole ones. The wait for the proof that a promoted
	// server has everything is a part of it.
	afterLoss = recovery + 6*time.Second
	// handOver is how long the gateways wait for that proof.
	handOver = 2 * time.Second
)

// within is how long the first 200 of every gateway may take. In a planned failover
// a plain client is served before the old master has proved that nothing is lost.
func (f *fault) within() time.Duration { return max(recovery, f.floor, f.gap) }

// replaysWanted is how many requests a fault is followed by, at least, that were
// sent before.
var replaysWanted = pick(17_000, 0)

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
	b.control = startControl()
	r := &result{topology: top.name, fault: f.name, promise: f.promise, otherRefused: make(map[string]int)}
	for range pick(max(1, f.rounds), 1) {
		back, recovered := b.strike(&f)
		r.back, r.recovered = max(r.back, back), max(r.recovered, recovered)
	}
	b.control.end()
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
// again, after it and after a plain client of the servers was served.
func (b *bench) strike(f *fault) (back, recovered time.Duration) {
	b.t.Helper()
	b.during(time.Second)
	end := f.strike(b)
	if f.lasts > 0 {
		b.during(f.lasts)
	}
	if end != nil {
		end()
	}
	ended := time.Now()
	served := make(chan time.Time, 1)
	b.load.tasks.Go(func() { served <- b.served() })
	back = b.flows()
	recovered = max(0, back-(<-served).Sub(ended))
	if f.restore != nil {
		f.restore(b)
		b.flows()
	}
	return back, recovered
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
