package node

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// explanationsPerSecond is how many refusals the process explains in a second.
const explanationsPerSecond = 20

// ExplanationShares divides what explaining refusals may cost, so that nobody
// buys time of the processor with wrong signatures: one a second for a key,
// five for an address and a number for the process. It is safe for use by many
// goroutines.
type ExplanationShares struct {
	keys, addresses, process *shareTable
}

// NewExplanationShares returns shares of which nothing is used, of aSecondInAll
// explanations for the process.
func NewExplanationShares(aSecondInAll int64) *ExplanationShares {
	aSecond := func(n int64) ratelimit.Limit { return ratelimit.Limit{Count: n, Period: time.Second, Burst: n} }
	return &ExplanationShares{newShareTable(aSecond(1), 4096), newShareTable(aSecond(5), 4096), newShareTable(aSecond(aSecondInAll), 1)}
}

// Take reports whether a refusal may be explained at now, and charges it.
func (e *ExplanationShares) Take(key string, address netip.Prefix, now time.Time) bool {
	ok := e.keys.take(maphash.String(shareSeed, key), now) && e.addresses.take(maphash.Comparable(shareSeed, address), now) && e.process.take(0, now)
	if ok {
		meter.ExplanationsGiven.Inc()
	} else {
		meter.ExplanationsSkipped.Inc()
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

// rememberedRefusals is how many refusals the process remembers. Each has at
// most the 8 KiB of a target and some hundred bytes.
const rememberedRefusals = 512

// refusalMemory is a ring of the last refusals that were explained. It holds no
// secret, no signature and no body, and is lost with the process.
type refusalMemory struct {
	mu   sync.Mutex
	ring [rememberedRefusals]adminapi.Refusal
	next int
}

func (m *refusalMemory) Add(entry adminapi.Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ring[m.next] = entry
	m.next = (m.next + 1) % len(m.ring)
}

// List returns the newest refusals of a key, at most n, the newest first; of all
// keys and of none for the empty id.
func (m *refusalMemory) List(key string, n int) []adminapi.Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := []adminapi.Refusal{}
	for i := range m.ring {
		e := &m.ring[(m.next-1-i+2*len(m.ring))%len(m.ring)]
		if !e.At.IsZero() && (key == "" || e.KeyID == key) && len(found) < n {
			found = append(found, *e)
		}
	}
	return found
}

// Find returns the newest refusal with the request id.
func (m *refusalMemory) Find(requestID string) (entry adminapi.Refusal, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.ring {
		e := &m.ring[(m.next-1-i+2*len(m.ring))%len(m.ring)]
		if e.RequestID == requestID && requestID != "" {
			return *e, true
		}
	}
	return adminapi.Refusal{}, false
}
