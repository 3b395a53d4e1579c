package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"

	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/version"

	"github.com/card-gateway/card-gateway/caddymodule/secret"

	"github.com/card-gateway/card-gateway/keys"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App is the app card_gateway: the part of the gateway that all its handlers
// share. It is configured by the global option card_gateway.
//
// It holds no state of its own that a reload would lose; the store outlives
// the configuration as long as the next one names the same place.
type App struct {
	// Where nonces, failure counts, limits and keys are remembered: the module
	// `file` for one node or `redis` for several.
	// Default: `file` in the directory card-gateway of Caddy's data directory.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=card_gateway.stores inline_key=module"`

	// Where to find the master key that seals the secrets at rest: 32 bytes in
	// base64, one per line. With several lines the first seals and all open,
	// which is how a master key is rotated. Required: there is no default, and
	// whoever holds it can open every stored secret.
	MasterKey *secret.Ref `json:"master_key,omitempty"`

	// How far X-Timestamp may differ from the server's clock, both ways, and
	// how long a nonce may not be used again. Default: 5m.
	Window caddy.Duration `json:"window,omitempty"`

	// How many consecutive failures lock a key. Default: 50.
	LockAfter int `json:"lock_after,omitempty"`

	// How long a lock holds. Default: until an operator unlocks the key.
	LockDuration caddy.Duration `json:"lock_duration,omitempty"`

	// Rules that count towards the lock besides a wrong body hash or signature,
	// whether the request is correctly signed or not: `ip`, `timestamp`,
	// `nonce`. With `ip`, anybody who knows a key id can lock that key.
	// Default: none.
	LockCounts []string `json:"lock_counts,omitempty"`

	// How far ahead of the loss of nonces a request may be stamped and still
	// be refused for sure, after another boot or a failover. Default: 5s, or
	// the window if that is shorter.
	ReplayFloorAhead *caddy.Duration `json:"replay_floor_ahead,omitempty"`

	// Rate limits by operation, and by the names `default` (every operation,
	// each in a bucket of its own) and `total` (all operations of a key
	// together): `60/1m burst 10`. Default: a built-in limit per operation,
	// no total.
	Limits map[string]string `json:"limits,omitempty"`

	// Operations besides those of the published interface. One that carries
	// the name of a built-in operation replaces it.
	Operations []OperationConfig `json:"operations,omitempty"`

	// How many bytes of request bodies are held in memory at one time; beyond
	// it requests are answered with 503. Default: 268435456 (256 MiB).
	BodyBudget int64 `json:"body_budget,omitempty"`

	// The part of body_budget that the requests of one key may hold, above 0
	// and at most 1; beyond it they are answered with 503. Default: 0.125.
	BodyShare float64 `json:"body_share,omitempty"`

	// The part of body_budget that the requests from one client address may
	// hold. Default: 0.25.
	BodyShareAddress float64 `json:"body_share_address,omitempty"`

	// A directory outside of the store's, where the embedded store keeps the
	// high-water mark of its journal; it must outlive the process and may end
	// with the machine. Placeholders are expanded. A changed value holds from
	// the next start of the process on. Default: RUNTIME_DIRECTORY of systemd,
	// else XDG_RUNTIME_DIR, else none and a warning at each start.
	RuntimeDir string `json:"runtime_dir,omitempty"`

	// How many bytes of answers are held in memory at one time to be
	// translated; beyond it they are answered with 503. One key may hold a
	// quarter, one address half of it. Default: 134217728 (128 MiB).
	AnswerBudget int64 `json:"answer_budget,omitempty"`

	rules     *rules
	state     *state
	telemetry *telemetry

	poolKey string // of the store in the pool; empty until it is taken
	refresh sync.WaitGroup
	stop    context.CancelFunc
}

// OperationConfig is one line of the table of operations.
type OperationConfig struct {
	// The operation's name, used for limits, metrics and logs: lower-case
	// letters, digits and `_`.
	Name string `json:"name"`
	// The HTTP method. HEAD is matched as GET.
	Method string `json:"method"`
	// The path, with a placeholder in braces for a whole segment:
	// `/api/v1/cards/{cardId}/freeze`. Literals match without regard to case.
	Path string `json:"path"`
	// The scope that a key needs, such as `cards:write`.
	Scope string `json:"scope"`
	// The largest request body in bytes. Default: max_body of card_auth.
	MaxBody int64 `json:"max_body,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "card_gateway", New: func() caddy.Module { return new(App) }}
}

// Provision makes everything ready that a handler needs. It touches no
// network and takes no lock, so that a configuration can be validated beside a
// running gateway.
func (a *App) Provision(ctx caddy.Context) error {
	if err := a.provision(ctx); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	return nil
}

func (a *App) provision(ctx caddy.Context) (err error) {
	if a.rules, err = newRules(a); err != nil {
		return err
	}
	ring, err := a.readMasterKey()
	if err != nil {
		return err
	}
	if a.telemetry, err = newTelemetry(ctx.Logger(), ctx.GetMetricsRegistry(), a.rules.table); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if a.telemetry.emit, err = eventEmitter(ctx); err != nil {
		return err
	}
	pooled, err := a.openStore(ctx)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	a.state = newState(pooled, ring, a.rules, a.telemetry)
	if err := drainBefore(ctx, &a.state.drain); err != nil {
		return err
	}
	return a.state.testMasterKey(ctx)
}

func (a *App) readMasterKey() (*keys.Keyring, error) {
	if a.MasterKey == nil {
		return nil, errors.New("no master_key is configured; make one with `openssl rand -base64 32` and name it: master_key file PATH, or master_key env NAME")
	}
	text, err := a.MasterKey.Read()
	if err != nil {
		return nil, fmt.Errorf("reading master_key: %w", err)
	}
	ring, err := keys.ParseKeyring(text)
	if err != nil {
		return nil, fmt.Errorf("master_key from %s: %w", a.MasterKey, err)
	}
	return ring, nil
}

// Start takes the store and begins the background work. An unfit store, a
// directory in use or a wrong master key refuse to start.
func (a *App) Start() error {
	if err := a.state.ensureStarted(context.Background()); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.stop = cancel
	takeStandardLog()
	currentBodies.Store(a.state.bodies)
	a.state.sharePolicy(a.rules)
	a.telemetry.log.Info("the gateway runs", zap.Inline(version.This()))
	a.refresh.Go(func() { a.refreshGauges(ctx) })
	a.refresh.Go(func() { a.refreshIDs(ctx) })
	return nil
}

// Stop ends the background work. Requests in flight go on.
func (a *App) Stop() error {
	if a.stop != nil {
		a.stop()
		a.refresh.Wait()
		a.state.keys.Stop()
	}
	return nil
}

// Cleanup gives the store back. It is closed when no configuration and no
// request uses it any more.
func (a *App) Cleanup() error {
	if a.state != nil {
		a.state.drain.end()
	}
	if a.poolKey == "" {
		return nil
	}
	_, err := stores.Delete(a.poolKey)
	return err
}

// Keys returns the service that keeps the keys, for the admin API; nil before
// the app is provisioned.
func (a *App) Keys() *keys.Service {
	if a.state == nil {
		return nil
	}
	return a.state.keys
}

// BodyMemory reports the memory for request bodies, for the admin API.
func (a *App) BodyMemory() keyadmin.BodyMemory {
	m := a.state.bodies
	return keyadmin.BodyMemory{Bytes: m.used.Load(), Limit: m.limit, Holders: m.largest(10)}
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
