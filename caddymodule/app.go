package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auditfile"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/admin"
	"github.com/card-gateway/card-gateway/caddymodule/audit"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/caddymodule/settings"
	"github.com/card-gateway/card-gateway/caddymodule/stores"
	"github.com/card-gateway/card-gateway/caddymodule/version"
	"github.com/card-gateway/card-gateway/keys/keyring"
)

// App is the app card_gateway: the part of the gateway that all its handlers
// share. The global option card_gateway configures it.
//
// It has no state that a reload would lose: the store stays open if the next
// configuration uses the same place.
type App struct {
	settings.Config

	settings  *settings.Settings
	state     *state
	telemetry *telemetry
	tokens    *admin.Tokens       // of the admin API
	loaded    audit.Configuration // as it was given
	joined    []*caddyhttp.Server // the servers of handlers that have joined
	logs      []peek.Log          // of the configuration

	dryRuns   int           // handlers in dry run
	published publishedKeys // of assert

	upkeep  upkeep
	order   orderCheck
	ended   func() error              // why Caddy has ended this configuration; nil: it has not
	servers func() error              // checks those without a handler of ours
	certs   func() *node.Certificates // those of the configuration
	admin   string                    // path of the admin socket; empty: there is none
	poolKey string                    // of the store in the pool; empty until it is taken
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "card_gateway", New: func() caddy.Module { return new(App) }}
}

// Provision prepares everything that a handler needs. It uses no network and
// takes no lock, so that a configuration can be validated beside a running
// gateway.
func (a *App) Provision(ctx caddy.Context) error {
	if err := a.provision(ctx); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	return nil
}

func (a *App) provision(ctx caddy.Context) (err error) {
	a.loaded.Add("card_gateway", &a.Config)
	if a.settings, err = settings.New(&a.Config); err != nil {
		return err
	}
	ring, err := a.readMasterKey()
	if err != nil {
		return err
	}
	if err := a.readAdminTokens(); err != nil {
		return err
	}
	if a.telemetry, err = newTelemetry(ctx.Logger(), ctx.GetMetricsRegistry(), a.settings.Table); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if a.settings.LockCounts.Has(auth.RuleNonce) {
		a.telemetry.Log.Warn("lock_counts nonce locks clients that send a request again after a lost answer, as they should; remove it")
	}
	if err := a.findAuditFile(); err != nil {
		return err
	}
	a.order = orderCheck{rateLimits: len(a.Limits) > 0, log: a.telemetry.Log}
	a.admin = node.AdminSocketOf(ctx)
	var known bool
	if a.logs, known = peek.Logs(ctx, reflect.TypeFor[*cardlog.LogEncoder]()); !known && !a.LogUnredacted {
		return errors.New("this version of Caddy hides the formats of its logs; build the gateway with the version that its go.mod names, or write log_unredacted")
	}
	a.servers = func() error { return a.order.allServers(ctx) }
	a.certs = func() *node.Certificates { return node.CertificatesOf(ctx, a.telemetry.Log) }
	a.telemetry.DocsURL = a.DocsURL
	if a.telemetry.emit, err = eventEmitter(ctx); err != nil {
		return err
	}
	if err := a.watchLoad(ctx); err != nil {
		return err
	}
	pooled, err := a.openStore(ctx)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	a.state = newState(pooled, ring, a.settings, a.telemetry)
	if err := node.DrainBefore(ctx, &a.state.left); err != nil {
		return err
	}
	return a.state.testMasterKey(ctx)
}

// openStore takes the configured store.
func (a *App) openStore(ctx caddy.Context) (*stores.Pooled, error) {
	if a.StoreRaw == nil {
		a.StoreRaw = json.RawMessage(`{"module":"file"}`)
	}
	module, err := ctx.LoadModule(a, "StoreRaw")
	if err != nil {
		return nil, err
	}
	chosen, ok := module.(stores.Module)
	if !ok {
		return nil, fmt.Errorf("%T is not a store", module)
	}
	taken, err := stores.Take(chosen, a.settings.Window, a.RuntimeDir)
	if err == nil {
		a.poolKey = chosen.Place()
	}
	return taken, err
}

func (a *App) readMasterKey() (*keyring.Ring, error) {
	if a.MasterKey == nil {
		return nil, errors.New("no master_key is configured; make one with `openssl rand -base64 32` and name it: master_key file PATH, or master_key env NAME")
	}
	text, err := a.MasterKey.Read()
	if err != nil {
		return nil, fmt.Errorf("reading master_key: %w", err)
	}
	ring, err := keyring.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("master_key from %s: %w", a.MasterKey, err)
	}
	return ring, nil
}

func (a *App) readAdminTokens() (err error) {
	if a.AdminToken == nil {
		return nil
	}
	if a.AdminToken.File == "" || a.AdminToken.Env != "" {
		return errors.New("admin_token: the tokens are lines of a file; write admin_token file PATH")
	}
	if a.tokens, err = admin.ReadTokens(a.AdminToken.File); err != nil {
		return fmt.Errorf("admin_token: %w", err)
	}
	return nil
}

// findAuditFile finds the file of the audit record, which need not exist yet.
func (a *App) findAuditFile() error {
	if a.Config.Audit == nil {
		return nil
	}
	path, err := stores.Absolute("audit", a.Config.Audit.File)
	if err == nil {
		err = auditfile.Check(path)
		a.telemetry.audit.File = auditfile.At(path)
	}
	return err
}

// Start starts the store and the background work. It returns an error for an
// unfit store, a directory in use, or a wrong master key.
func (a *App) Start() error {
	if err := a.servers(); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	if err := a.state.ensureStarted(context.Background()); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	if err := a.telemetry.audit.Begin(); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	takeStandardLog()
	meter.ShownBodies.Store(a.state.bodies)
	a.state.sharePolicy(a.settings)
	meter.DryRunGauge.Set(float64(a.dryRuns))
	a.upkeep = upkeep{state: a.state, telemetry: a.telemetry, served: a.certs(), admin: a.admin}
	a.upkeep.start()
	return nil
}

// Stop ends the background work. It does not stop requests in flight.
func (a *App) Stop() error {
	if a.upkeep.stop() {
		a.state.keys.Stop()
	}
	a.telemetry.audit.Settle(context.Background())
	return nil
}

// Cleanup releases the store, which is closed when no configuration and no
// request uses it.
func (a *App) Cleanup() error {
	a.reportRefusal()
	if a.poolKey == "" {
		return nil
	}
	return stores.Release(a.poolKey)
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

// Join notes a handler with its options, and checks the routes of its server.
func (a *App) Join(handler string, options any, server *caddyhttp.Server) error {
	a.loaded.Add(handler, options)
	if server != nil && !slices.Contains(a.joined, server) {
		a.joined = append(a.joined, server)
		passOptions(server)
		if err := a.checkLogs(server); err != nil {
			return err
		}
	}
	return a.order.server(server)
}

// checkLogs refuses a log without the format card that gets requests of the server: in
// its access log, or in Caddy's log of errors. Caddy's own default log passes, which is
// for a first try on a terminal, as long as it gets only errors.
func (a *App) checkLogs(server *caddyhttp.Server) error {
	if a.LogUnredacted {
		return nil
	}
	var access []string
	if names := server.Logs; names != nil {
		access = []string{strings.TrimSuffix("http.log.access."+names.DefaultLoggerName, ".")}
		for _, hosts := range names.LoggerNames {
			for _, name := range hosts {
				access = append(access, strings.TrimSuffix("http.log.access."+name, "."))
			}
		}
	}
	for _, log := range a.logs {
		if !log.Formatted && (slices.ContainsFunc(access, log.Gets) || log.Gets("http.log.error") && !log.Unset) {
			return fmt.Errorf("card_gateway: the log %q shows key ids, signatures, nonces and query values of requests; write `format card` in its `log` block (%q is the one in the global options; inside another format write `wrap card`), or log_unredacted in card_gateway", log.Name, caddy.DefaultLoggerName)
		}
	}
	return nil
}

// passOptions makes net/http pass `OPTIONS *` to the handlers of the server. It answers
// an empty 200 to it otherwise, which no log and no metric shows.
func passOptions(server *caddyhttp.Server) {
	var once sync.Once
	server.RegisterConnContext(func(ctx context.Context, _ net.Conn) context.Context {
		if s, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
			once.Do(func() { s.DisableGeneralOptionsHandler = true })
		}
		return ctx
	})
}

// Unjudged returns what answers requests that no card_auth has judged.
func (a *App) Unjudged() request.Unjudged {
	return request.NewUnjudged(&a.telemetry.Reporter, a.settings.Table.ByName(auth.OtherOperation))
}

// appOf is request.Join for handlers that need more of the app.
func appOf(ctx caddy.Context, handler string, options any) (*App, error) {
	joined, err := request.Join(ctx, handler, options)
	app, _ := joined.(*App)
	return app, err
}

// watchLoad makes the app learn what becomes of its configuration: Caddy's event
// "started" means that all apps run and listen, and a cause that the configuration
// has ended.
func (a *App) watchLoad(ctx caddy.Context) error {
	a.ended = func() error { return context.Cause(ctx) }
	return node.On(ctx, "started", func() {
		a.telemetry.Log.Info("the gateway runs", zap.Inline(version.Current()))
		node.Process.Loads.Made(time.Now())
		a.telemetry.audit.Configured(&a.loaded)
	})
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
		a.telemetry.audit.Settle(context.Background()) // the process ends
	}
}
