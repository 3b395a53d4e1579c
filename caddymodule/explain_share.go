package caddymodule

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	return &explanations{
		keys:      newShareTable(shareTable{interval: time.Second, burst: 1}, 4096),
		addresses: newShareTable(shareTable{interval: time.Second / 5, burst: 5}, 4096),
		process:   newShareTable(shareTable{interval: time.Second / 20, burst: 20}, 1),
	}
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

// A shareTable allows one use an interval, and burst of them at once, to each
// name. Its size is fixed: names that fall into one slot share it.
type shareTable struct {
	interval time.Duration
	burst    int64
	full     []atomic.Int64 // when all uses of the slot are there again, in Unix nanoseconds
}

// shareSeed keeps callers from choosing names that fall into one slot.
var shareSeed = maphash.MakeSeed()

func newShareTable(t shareTable, slots int) *shareTable {
	t.full = make([]atomic.Int64, slots)
	return &t
}

// take charges one use to the name that has the hash.
func (t *shareTable) take(name uint64, now time.Time) bool {
	slot, at := &t.full[name%uint64(len(t.full))], now.UnixNano()
	for {
		full := slot.Load()
		next := max(full, at) + int64(t.interval)
		if next > at+t.burst*int64(t.interval) {
			return false
		}
		if slot.CompareAndSwap(full, next) {
			return true
		}
	}
}
