package caddymodule

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
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
	MasterKey *SecretRef `json:"master_key,omitempty"`

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

	ctx     caddy.Context
	log     *zap.Logger
	events  *caddyevents.App
	audit   *zap.Logger
	table   *auth.Table
	policy  *ratelimit.Policy
	counts  auth.Rules
	ahead   time.Duration
	ring    *store.Keyring
	pooled  *pooledStore
	poolKey string
	backend store.Backend // the pooled backend, measured
	keys    *store.Keys
	bodies  *budget
	metrics *metrics
	refused *zap.Logger
	spare   atomic.Pointer[string] // the next random revision, see nextRevision

	leftmostOnce sync.Once // of warnLeftmost

	startOnce sync.Mutex
	started   atomic.Bool
	stop      context.CancelFunc
	done      chan struct{}
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
	a.log = ctx.Logger()
	a.audit = a.log.Named("audit")
	a.refused = refusalLogger(a.log)
	a.setDefaults()
	if err := a.provisionPolicy(); err != nil {
		return err
	}
	if a.MasterKey == nil {
		return errors.New("card_gateway: no master_key is configured; make one with `openssl rand -base64 32` and name it: master_key file PATH, or master_key env NAME")
	}
	text, err := a.MasterKey.read()
	if err != nil {
		return fmt.Errorf("card_gateway: reading master_key: %w", err)
	}
	if a.ring, err = store.ParseKeyring(text); err != nil {
		return fmt.Errorf("card_gateway: master_key from %s: %w", a.MasterKey, err)
	}
	if a.metrics, err = newMetrics(ctx.GetMetricsRegistry(), a.table); err != nil {
		return fmt.Errorf("card_gateway: registering metrics: %w", err)
	}
	if err := a.provisionEvents(ctx); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	if err := a.provisionStore(ctx); err != nil {
		return err
	}
	a.bodies = &budget{limit: a.BodyBudget}
	a.nextRevision(true)
	a.keys = store.NewKeys(a.backend, a.ring, store.KeysOptions{
		CheckLimits:      a.checkLimits,
		CheckScopes:      a.checkScopes,
		OnChange:         a.changed,
		ReplayFloorAhead: a.ahead,
	})
	return a.testMasterKey(ctx)
}

// testMasterKey refuses a master key that does not open the store, where that
// costs no network. Elsewhere Start finds out, or the first answer of a store
// that was out of reach then.
func (a *App) testMasterKey(ctx context.Context) error {
	if local, ok := a.backend.(store.LocalBackend); !ok || !local.Local() {
		return nil
	}
	if err := a.keys.TestMasterKey(ctx); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	return nil
}

func (a *App) setDefaults() {
	if a.Window == 0 {
		a.Window = caddy.Duration(5 * time.Minute)
	}
	if a.LockAfter == 0 {
		a.LockAfter = 50
	}
	if a.BodyBudget == 0 {
		a.BodyBudget = 256 << 20
	}
	a.ahead = min(5*time.Second, time.Duration(a.Window))
	if a.ReplayFloorAhead != nil {
		a.ahead = time.Duration(*a.ReplayFloorAhead)
	}
}

// Validate checks what Provision could not refuse.
func (a *App) Validate() error {
	switch {
	case a.Window < caddy.Duration(time.Second) || a.Window > caddy.Duration(24*time.Hour):
		return fmt.Errorf("card_gateway: window is %s; it must be between 1s and 24h", time.Duration(a.Window))
	case a.LockAfter < 1:
		return fmt.Errorf("card_gateway: lock_after is %d; it must be 1 or more", a.LockAfter)
	case a.LockDuration < 0:
		return fmt.Errorf("card_gateway: lock_duration is negative; leave it out to lock until an operator unlocks")
	case a.ahead < 0 || a.ahead > time.Duration(a.Window):
		return fmt.Errorf("card_gateway: replay_floor_ahead is %s; it must be between 0s and the window", a.ahead)
	case a.BodyBudget < 1<<20:
		return fmt.Errorf("card_gateway: body_budget is %d bytes; it must be 1MiB or more", a.BodyBudget)
	}
	for _, operation := range a.Operations {
		if operation.MaxBody > a.BodyBudget {
			return fmt.Errorf("card_gateway: operation %s: max_body is %d bytes, more than body_budget, %d", operation.Name, operation.MaxBody, a.BodyBudget)
		}
	}
	return nil
}

// Start takes the store and begins the background work. An unfit store, a
// directory in use or a wrong master key refuse to start.
func (a *App) Start() error {
	if err := a.ensureStarted(context.Background()); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.stop, a.done = cancel, make(chan struct{})
	takeStandardLog()
	a.log.Info("the gateway runs", zap.Inline(ThisBuild()))
	go a.watch(ctx)
	return nil
}

// ensureStarted starts the store unless it runs. Caddy starts its apps in any
// order, so a request may come first.
func (a *App) ensureStarted(ctx context.Context) error {
	if a.started.Load() {
		return nil
	}
	a.startOnce.Lock()
	defer a.startOnce.Unlock()
	if a.started.Load() {
		return nil
	}
	if err := a.backend.Start(ctx); err != nil {
		return err
	}
	if err := a.keys.Start(ctx); errors.Is(err, store.ErrMasterKey) || errors.Is(err, store.ErrDamaged) {
		return err
	}
	a.started.Store(true)
	return nil
}

// Stop ends the background work. Requests in flight go on.
func (a *App) Stop() error {
	if a.stop != nil {
		a.stop()
		<-a.done
		a.keys.Stop()
	}
	return nil
}

// Cleanup gives the store back. It is closed when no configuration and no
// request uses it any more.
func (a *App) Cleanup() error {
	if a.poolKey == "" {
		return nil
	}
	_, err := stores.Delete(a.poolKey)
	return err
}

// keysService is what the admin API works on.
func (a *App) keysService() *store.Keys { return a.keys }

// nextRevision returns a random revision for a record that a request may lock.
// Locks are rare, so one value serves until it was used, and renew makes the
// next.
func (a *App) nextRevision(renew bool) string {
	if renew {
		text := rand.Text()
		a.spare.Store(&text)
	}
	return *a.spare.Load()
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.Validator    = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
