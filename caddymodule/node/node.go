// Package node remembers what outlives a configuration, and watches this process: its
// drain, its admin socket, its certificates.
//
// Begin with [State], of which there is one in a process.
package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/offenders"
)

// A State is what outlives configurations, besides what lives in pools, is
// counted, or is in the audit record. It begins and ends with the process, and nothing
// of it is stored.
type State struct {
	Began      time.Time // when counting began
	Loads      loadMemory
	Drain      drain
	debugUntil atomic.Int64 // each request is logged until then, in nanoseconds of Unix time
	AdminLost  atomic.Bool  // the admin socket of the running configuration is not that of this process

	Offenders offenders.Counter // refusals of existing keys
	Refusals  refusalMemory

	// What explaining refusals may cost. A caller that is no key of ours has shares of
	// its own, so that it takes none from those that are.
	Explanations, Strangers *ExplanationShares
}

// Process is the state of this process.
var Process = New()

// New returns the state of a process that begins.
func New() *State {
	return &State{
		Began:        time.Now().UTC().Truncate(time.Second),
		Explanations: NewExplanationShares(explanationsPerSecond), Strangers: NewExplanationShares(explanationsPerSecond),
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
