package caddymodule

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/caddymodule/version"
)

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
