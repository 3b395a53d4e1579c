// Package node remembers what outlives a configuration, and watches this process: its
// drain, its admin socket, its certificates.
//
// Begin with [State], of which there is one in a process.
package node

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/offenders"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// A State is what outlives configurations, besides what is in pools (of packages stores
// and issuer), is counted, or is in the audit record. It begins and ends with the process,
// and nothing of it is stored.
type State struct {
	Began      time.Time // when counting began
	Loads      loadMemory
	Drain      drain
	debugUntil atomic.Int64 // each request is logged until then, in nanoseconds of Unix time
	AdminLost  atomic.Bool  // the admin socket of the running configuration is not that of this process

	Offenders offenders.Counter // refusals of existing keys
	Refusals  refusalMemory
	Recent    recentMemory

	// What explaining refusals may cost: of requests that are signed with a live key, or with
	// a test key, of those that only name a key of ours, and of all others. None takes
	// anything from the others.
	Explanations, Tests, Claims, Strangers *ExplanationShares
}

// Process is the state of this process.
var Process = New()

// New returns the state of a process that begins.
func New() *State {
	return &State{
		Began:        time.Now().UTC().Truncate(time.Second),
		Explanations: NewExplanationShares(aSecond(1, 1), aSecond(5, 5), aSecond(20, 20)),
		Tests:        NewExplanationShares(aSecond(1, testRun), aSecond(5, testRun), aSecond(20, testRun)),
		Claims:       unproven(), Strangers: unproven(),
	}
}

// A loadMemory remembers the last loads of configurations.
type loadMemory struct {
	mu    sync.Mutex
	view  adminapi.Loads
	cause error // of the last refusal
}

func (m *loadMemory) Made(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view.At = at.UTC()
}

// Refused notes a refusal. It returns false if that was noted before.
func (m *loadMemory) Refused(at time.Time, cause error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause == cause { //nolint:errorlint // the same refusal, not one of the same kind
		return false
	}
	at = at.UTC()
	m.cause, m.view.RefusedAt, m.view.Refusal = cause, &at, cause.Error()
	return true
}

func (m *loadMemory) Last() adminapi.Loads {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// LastRefused reports whether a configuration was refused after the last one started.
func (m *loadMemory) LastRefused() bool {
	last := m.Last()
	return last.RefusedAt != nil && !last.RefusedAt.Before(last.At)
}

// LogsEachRequest reports whether the log has a line for each request.
func LogsEachRequest() bool {
	until := Process.debugUntil.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// View returns what operators have changed of this process.
func View() adminapi.Node {
	until := Process.Drain.Operator.Load()
	s := adminapi.Node{Drained: until != nil}
	if s.Drained && !until.IsZero() {
		s.DrainedUntil = new(until.UTC())
	}
	if LogsEachRequest() {
		until := time.Unix(0, Process.debugUntil.Load()).UTC()
		s.DebugUntil = &until
	}
	return s
}

// LogEachRequest makes the log have a line for each request until a time; the zero
// time ends it.
func LogEachRequest(until time.Time) {
	if until.IsZero() {
		Process.debugUntil.Store(0)
		return
	}
	Process.debugUntil.Store(until.UnixNano())
}

// testRun is how many refusals of a test key are explained at once: about as many as a
// developer's tests cause.
const testRun = 20

// unprovenAddresses is how many addresses, at one time, can take all that is explained to
// callers who have proved nothing. Such a refusal has no body to explain, and takes 0.4 ms,
// or 5 with the longest target.
const unprovenAddresses = 50

// unproven returns the shares of callers who have proved nothing. The address alone decides:
// whoever names a key that is not his takes nothing from its holder.
func unproven() *ExplanationShares {
	all := aSecond(unprovenAddresses, unprovenAddresses*testRun)
	return NewExplanationShares(all, aSecond(1, testRun), all)
}

// aSecond is n explanations a second, and a number at once.
func aSecond(n, atOnce int64) ratelimit.Limit {
	return ratelimit.Limit{Count: n, Period: time.Second, Burst: atOnce}
}

// ExplanationShares divides what explaining refusals may cost, so that nobody buys time of
// the processor with wrong signatures. It is safe for use by many goroutines.
type ExplanationShares struct {
	mu     sync.Mutex
	tables [3]shareTable // of keys, of addresses, of the process
}

// NewExplanationShares returns shares of which nothing is used, with what a key, an address
// and the process may have.
func NewExplanationShares(key, address, process ratelimit.Limit) *ExplanationShares {
	return &ExplanationShares{tables: [...]shareTable{newShareTable(key, 4096), newShareTable(address, 4096), newShareTable(process, 1)}}
}

// Take reports whether a refusal may be explained at now, and charges it to all shares; else
// to none. The key is empty if the caller has not proved that it is his.
func (e *ExplanationShares) Take(key string, address netip.Prefix, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	var slots [len(e.tables)]*ratelimit.Level
	var next [len(e.tables)]ratelimit.Level
	for i, name := range [...]uint64{maphash.String(shareSeed, key), maphash.Comparable(shareSeed, address), 0} {
		var fits bool
		if slots[i], next[i], fits = e.tables[i].decide(name, now); !fits {
			meter.ExplanationsSkipped.Inc()
			return false
		}
	}
	for i, slot := range slots {
		*slot = next[i]
	}
	meter.ExplanationsGiven.Inc()
	return true
}

// A shareTable has a limit for each name. Its size is fixed: names that fall into
// one slot share it.
type shareTable struct {
	charge ratelimit.Charge
	levels []ratelimit.Level
}

// shareSeed keeps callers from choosing names that fall into one slot.
var shareSeed = maphash.MakeSeed()

func newShareTable(limit ratelimit.Limit, slots int) shareTable {
	return shareTable{charge: ratelimit.NewCharge("", limit, 1), levels: make([]ratelimit.Level, slots)}
}

// decide returns the slot of the name that has the hash, its next level, and whether one
// use fits. It charges nothing.
func (t *shareTable) decide(name uint64, now time.Time) (slot *ratelimit.Level, next ratelimit.Level, fits bool) {
	slot = &t.levels[name%uint64(len(t.levels))]
	next, fits = t.charge.Decide(*slot, now.UnixMicro())
	return slot, next, fits
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

// Events returns Caddy's app for events.
func Events(ctx caddy.Context) (*caddyevents.App, error) {
	module, err := ctx.App("events")
	if err != nil {
		return nil, err
	}
	events, ok := module.(*caddyevents.App)
	if !ok {
		return nil, fmt.Errorf("the app events is a %T", module)
	}
	return events, nil
}

// On calls do at each event of the name in the configuration of the context.
func On(ctx caddy.Context, name string, do func()) error {
	events, err := Events(ctx)
	if err != nil {
		return err
	}
	return events.On(name, handler{do})
}

type handler struct{ do func() } // Caddy writes it into its debug log, as JSON

// Handle is part of caddyevents.Handler.
func (h handler) Handle(context.Context, caddy.Event) error {
	h.do()
	return nil
}

// Log writes to the default log of the current configuration: for what outlives the one
// that made it.
var Log = zap.New(core{})

type core struct{}

func (core) Enabled(l zapcore.Level) bool                   { return caddy.Log().Core().Enabled(l) }
func (core) With(fields []zapcore.Field) zapcore.Core       { return caddy.Log().Core().With(fields) }
func (core) Write(e zapcore.Entry, f []zapcore.Field) error { return caddy.Log().Core().Write(e, f) }
func (core) Sync() error                                    { return caddy.Log().Core().Sync() }
func (core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return caddy.Log().Core().Check(e, ce)
}
