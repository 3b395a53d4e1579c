package caddymodule

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// explanationsTotal counts refusals that could be explained.
var explanationsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "card_gateway_explanations_total",
	Help: "Refusals that the gateway could explain, by result: given, or skipped because the key, the address or the process had its share.",
}, []string{"result"})

// The label's closed set.
var explanationResults = []string{"given", "skipped"}

var explanationsGiven, explanationsSkipped = explanationsTotal.WithLabelValues(explanationResults[0]), explanationsTotal.WithLabelValues(explanationResults[1])

// explanations shares out what explaining refusals may cost, so that nobody
// buys time of the processor with wrong signatures: one a second for a key,
// five for an address and 20 for the process. It is safe for use by many
// goroutines.
type explanations struct {
	keys, addresses, process *shareTable
}

func newExplanations() *explanations {
	aSecond := func(n int64) ratelimit.Limit { return ratelimit.Limit{Count: n, Period: time.Second, Burst: n} }
	return &explanations{newShareTable(aSecond(1), 4096), newShareTable(aSecond(5), 4096), newShareTable(aSecond(20), 1)}
}

// take reports whether a refusal may be explained at now, and charges it.
func (e *explanations) take(key string, address netip.Prefix, now time.Time) bool {
	ok := e.keys.take(maphash.String(shareSeed, key), now) && e.addresses.take(maphash.Comparable(shareSeed, address), now) && e.process.take(0, now)
	if ok {
		explanationsGiven.Inc()
	} else {
		explanationsSkipped.Inc()
	}
	return ok
}

// A shareTable has a limit for each name. Its size is fixed: names that fall into
// one slot share it.
type shareTable struct {
	charge ratelimit.Charge

	mu     sync.Mutex
	levels []ratelimit.Level
}

// shareSeed keeps callers from choosing names that fall into one slot.
var shareSeed = maphash.MakeSeed()

func newShareTable(limit ratelimit.Limit, slots int) *shareTable {
	return &shareTable{charge: ratelimit.NewCharge("", limit, 1), levels: make([]ratelimit.Level, slots)}
}

// take charges one use to the name that has the hash, and reports whether it had
// one left.
func (t *shareTable) take(name uint64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := &t.levels[name%uint64(len(t.levels))]
	next, ok := t.charge.Decide(*slot, now.UnixMicro())
	*slot = next
	return ok
}
