package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/caddymodule/auditfile"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
	"github.com/card-gateway/card-gateway/keys/keyring"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App is the app card_gateway: the part of the gateway that all its handlers
// share. The global option card_gateway configures it.
//
// It has no state that a reload would lose: the store stays open if the next
// configuration uses the same place.
type App struct {
	Config

	// The address of a page with an anchor for each message and code, such as
	// docs/errors.md of the gateway: every refusal then carries error.doc_url.
	// Default: none.
	DocsURL string `json:"docs_url,omitempty"`

	rules     *rules
	state     *state
	telemetry *telemetry
	tokens    *keyadmin.Tokens // of the admin API
	loaded    configuration    // as it was given

	dryRuns   int           // handlers in dry run
	published publishedKeys // of assert

	upkeep  upkeep
	order   orderCheck
	ended   func() error         // why Caddy has ended this configuration; nil: it has not
	servers func() error         // checks those without a handler of ours
	certs   func() *certificates // those of the configuration
	admin   string               // path of the admin socket; empty: there is none
	poolKey string               // of the store in the pool; empty until it is taken
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
	a.loaded.add("card_gateway", &a.Config)
	if a.rules, err = newRules(&a.Config); err != nil {
		return err
	}
	ring, err := a.readMasterKey()
	if err != nil {
		return err
	}
	if err := a.readAdminTokens(); err != nil {
		return err
	}
	if a.telemetry, err = newTelemetry(ctx.Logger(), ctx.GetMetricsRegistry(), a.rules.table); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if err := a.findAuditFile(); err != nil {
		return err
	}
	a.order = orderCheck{rateLimits: len(a.Limits) > 0, log: a.telemetry.log}
	a.admin = adminSocketOf(ctx)
	a.servers = func() error { return a.order.allServers(ctx) }
	a.certs = func() *certificates { return certificatesOf(ctx, a.telemetry.log) }
	if err := checkDocsURL(a.DocsURL); err != nil {
		return err
	}
	a.telemetry.docsURL = a.DocsURL
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
	a.state = newState(pooled, ring, a.rules, a.telemetry)
	if err := drainBefore(ctx, a.state); err != nil {
		return err
	}
	return a.state.testMasterKey(ctx)
}

// openStore takes the configured store.
func (a *App) openStore(ctx caddy.Context) (*pooledStore, error) {
	if a.StoreRaw == nil {
		a.StoreRaw = json.RawMessage(`{"module":"file"}`)
	}
	module, err := ctx.LoadModule(a, "StoreRaw")
	if err != nil {
		return nil, err
	}
	chosen, ok := module.(storeModule)
	if !ok {
		return nil, fmt.Errorf("%T is not a store", module)
	}
	taken, err := takeStore(chosen, a.rules.window, a.RuntimeDir)
	if err == nil {
		a.poolKey = chosen.place()
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
	if a.tokens, err = keyadmin.ReadTokens(a.AdminToken.File); err != nil {
		return fmt.Errorf("admin_token: %w", err)
	}
	return nil
}

// findAuditFile finds the file of the audit record. It does no I/O.
func (a *App) findAuditFile() error {
	if a.Config.Audit == nil {
		return nil
	}
	path, err := absolute("audit", a.Config.Audit.File)
	if err == nil {
		a.telemetry.audit.file = auditfile.At(filepath.Clean(path))
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
	if err := a.telemetry.audit.begin(); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	takeStandardLog()
	process.bodies.Store(a.state.bodies)
	a.state.sharePolicy(a.rules)
	dryRunGauge.Set(float64(a.dryRuns))
	a.upkeep = upkeep{state: a.state, telemetry: a.telemetry, served: a.certs(), admin: a.admin}
	a.upkeep.start()
	return nil
}

// Stop ends the background work. It does not stop requests in flight.
func (a *App) Stop() error {
	if a.upkeep.stop() {
		a.state.keys.Stop()
	}
	a.telemetry.audit.settle(context.Background())
	return nil
}

// Cleanup releases the store, which is closed when no configuration and no
// request uses it.
func (a *App) Cleanup() error {
	a.reportRefusal()
	if a.poolKey == "" {
		return nil
	}
	_, err := process.stores.Delete(a.poolKey)
	return err
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

var errNoApp = errors.New("there is no global option card_gateway; it says where the keys are and what is allowed")

// appOf returns the app that a handler belongs to, if the routes around the
// handler can be meant. The options are those of the handler, as they were given,
// for the audit record.
func appOf(ctx caddy.Context, handler string, options any) (*App, error) {
	module, err := ctx.AppIfConfigured("card_gateway")
	switch {
	case errors.Is(err, caddy.ErrNotConfigured):
		return nil, fmt.Errorf("%s: %w", handler, errNoApp)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", handler, err)
	}
	app, ok := module.(*App)
	if !ok {
		return nil, fmt.Errorf("%s: the app card_gateway is a %T", handler, module)
	}
	app.loaded.add(handler, options)
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return app, app.order.server(server)
}
