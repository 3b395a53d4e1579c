package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/caddymodule/version"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/offenders"
)

// A processState is what outlives configurations. It begins and ends with the
// process, and nothing of it is stored. Stores and forwarders live in pools: each
// is closed when no configuration uses it any more.
type processState struct {
	began      time.Time // when counting began
	stores     *caddy.UsagePool
	forwarders *caddy.UsagePool

	loads  loadMemory
	loaded struct { // the configuration that runs, or ran last, for the audit record
		sync.Mutex
		fields map[string]json.RawMessage
	}
	drain      drain
	debugUntil atomic.Int64 // each request is logged until then, in nanoseconds of Unix time
	adminLost  atomic.Bool  // the admin socket of the running configuration is not that of this process

	bodies    atomic.Pointer[held.Memory] // of the configuration that started last
	audit     auditCounts
	offenders offenders.Counter // refusals of existing keys
	refusals  refusalMemory
	issuerLog sampledLog

	// What explaining refusals may cost. A caller that is no key of ours has shares of
	// its own, so that it takes none from those that are.
	explanations, strangers *explanationShares
}

// process is the state of this process.
var process = newProcess()

func newProcess() *processState {
	p := &processState{
		began: time.Now().UTC().Truncate(time.Second), stores: caddy.NewUsagePool(), forwarders: caddy.NewUsagePool(),
		explanations: newExplanationShares(), strangers: newExplanationShares(),
	}
	p.bodies.Store(new(held.Memory))
	return p
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

// watchLoad makes the app learn what becomes of its configuration: Caddy's event
// "started" means that all apps run and listen, and a cause that the configuration
// has ended.
func (a *App) watchLoad(ctx caddy.Context) error {
	a.ended = func() error { return context.Cause(ctx) }
	module, err := ctx.App("events")
	if err != nil {
		return err
	}
	events, ok := module.(*caddyevents.App)
	if !ok {
		return fmt.Errorf("the app events is a %T", module)
	}
	return events.On("started", loadWatcher{a})
}

type loadWatcher struct{ app *App }

// Handle receives the event "started".
func (w loadWatcher) Handle(context.Context, caddy.Event) error {
	a := w.app
	a.telemetry.log.Info("the gateway runs", zap.Inline(version.Current()))
	process.loads.made(time.Now())
	a.telemetry.audit.configured(&a.loaded)
	return nil
}

// reportRefusal writes a line of the audit record if Caddy has refused the
// configuration: into the record of the gateway that goes on, or at the first start
// into its own. There, a configuration that was not even started may just have been
// validated, which leaves no trace.
func (a *App) reportRefusal() {
	if a.ended == nil || !peek.LoadRefused(a.ended()) {
		return
	}
	cause := a.ended()
	running, _ := caddy.ActiveContext().AppIfConfigured("card_gateway")
	switch running, ok := running.(*App); {
	case ok:
		running.LoadRefused(cause)
	case peek.StartFailed(cause):
		a.LoadRefused(cause)
		a.telemetry.audit.settle(context.Background()) // the process ends
	}
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
		i.telemetry.log.Named("requests").Info("request accepted", zap.String("request_id", i.RequestID),
			zap.String("client_ip", i.Client), zap.Duration("overhead", i.overhead), zap.Inline(fields))
	}
}
