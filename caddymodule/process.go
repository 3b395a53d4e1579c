package caddymodule

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/offenders"
)

// A processState is what outlives configurations, besides what lives in pools, is
// counted, or is in the audit record. It begins and ends with the process, and nothing
// of it is stored.
type processState struct {
	began      time.Time // when counting began
	loads      loadMemory
	drain      drain
	debugUntil atomic.Int64 // each request is logged until then, in nanoseconds of Unix time
	adminLost  atomic.Bool  // the admin socket of the running configuration is not that of this process

	offenders offenders.Counter // refusals of existing keys
	refusals  refusalMemory

	// What explaining refusals may cost. A caller that is no key of ours has shares of
	// its own, so that it takes none from those that are.
	explanations, strangers *explanationShares
}

// process is the state of this process.
var process = newProcess()

func newProcess() *processState {
	return &processState{
		began:        time.Now().UTC().Truncate(time.Second),
		explanations: newExplanationShares(explanationsPerSecond), strangers: newExplanationShares(explanationsPerSecond),
	}
}

// A loadMemory remembers the last loads of configurations.
type loadMemory struct {
	mu    sync.Mutex
	view  adminapi.Loads
	cause error // of the last refusal
}

func (m *loadMemory) made(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view.At = at.UTC()
}

// refused notes a refusal. It returns false if that was noted before.
func (m *loadMemory) refused(at time.Time, cause error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause == cause { //nolint:errorlint // the same refusal, not one of the same kind
		return false
	}
	at = at.UTC()
	m.cause, m.view.RefusedAt, m.view.Refusal = cause, &at, cause.Error()
	return true
}

func (m *loadMemory) last() adminapi.Loads {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// lastRefused reports whether a configuration was refused after the last one started.
func (m *loadMemory) lastRefused() bool {
	last := m.last()
	return last.RefusedAt != nil && !last.RefusedAt.Before(last.At)
}

// logsEachRequest reports whether the log has a line for each request.
func logsEachRequest() bool {
	until := process.debugUntil.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// nodeView returns what operators have changed of this process.
func nodeView() adminapi.Node {
	until := process.drain.operator.Load()
	s := adminapi.Node{Drained: until != nil}
	if s.Drained && !until.IsZero() {
		s.DrainedUntil = new(until.UTC())
	}
	if logsEachRequest() {
		until := time.Unix(0, process.debugUntil.Load()).UTC()
		s.DebugUntil = &until
	}
	return s
}

// logEachRequest makes the log have a line for each request until a time; the zero
// time ends it.
func logEachRequest(until time.Time) {
	if until.IsZero() {
		process.debugUntil.Store(0)
		return
	}
	process.debugUntil.Store(until.UnixNano())
}

// logAccepted writes a line for an accepted request, while an operator wants one
// for each.
func (i *requestInfo) logAccepted() {
	if i.refusal == nil && i.dryRun == nil && logsEachRequest() {
		fields := zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
			i.fields(enc.AddString)
			return nil
		})
		i.reporter.log.Named("requests").Info("request accepted", zap.String("request_id", i.RequestID),
			zap.String("client_ip", i.Client), zap.Duration("overhead", i.overhead), zap.Inline(fields))
	}
}
