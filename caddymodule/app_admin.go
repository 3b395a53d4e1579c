package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// The methods of the admin API, which is the interface keyadmin.Gateway.

// Keys returns the service of the keys, for the admin API; nil before
// the app is provisioned.
func (a *App) Keys() *keys.Service {
	if a.state == nil {
		return nil
	}
	return a.state.keys
}

// AdminTokens returns the tokens that open the admin API.
func (a *App) AdminTokens() *keyadmin.Tokens { return a.tokens }

// AuditCall writes a line of the audit record, for the admin API.
func (a *App) AuditCall(c keys.Change) { a.telemetry.audit.write(c) }

// State reports the state of the gateway, for the admin API.
func (a *App) State(ctx context.Context) keyadmin.State {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	s := keyadmin.State{
		Ready: true, Node: nodeView(), Degraded: a.state.degraded(ctx), Policy: a.rules.policy().Hash(), Loads: process.loads.last(),
		Traffic: traffic(), Offenders: process.offenders.Top(time.Now(), 10), Audit: a.telemetry.audit.state(),
	}
	err := a.state.ready(ctx)
	if err == nil && s.Drained {
		err = errDrained
	}
	if err != nil {
		s.Ready, s.Reason = false, err.Error()
	}
	return s
}

// LoadRefused writes a line of the audit record for a configuration that was not
// loaded, once for each, for the admin API.
func (a *App) LoadRefused(err error) {
	if !process.loads.refused(time.Now(), err) {
		return
	}
	dryRunGauge.Set(float64(a.dryRuns)) // the refused one may have started
	a.telemetry.audit.refusedLoad(err)
}

// BodyMemory reports the memory for request bodies, for the admin API.
func (a *App) BodyMemory() keyadmin.BodyMemory {
	m := a.state.bodies
	return keyadmin.BodyMemory{Bytes: m.used.Load(), Limit: m.limit, Holders: m.largest(10)}
}

// Refusal reports what is remembered of a refusal, for the admin API.
func (a *App) Refusal(requestID string) (keyadmin.Refusal, bool) {
	return process.refusals.find(requestID)
}

// Refusals returns remembered refusals, for the admin API.
func (a *App) Refusals(keyID string, limit int) []keyadmin.Refusal {
	return process.refusals.list(keyID, limit)
}

// KeyLimits returns the buckets of a key as they are now, for the admin API.
func (a *App) KeyLimits(ctx context.Context, keyID string) ([]keyadmin.Limit, error) {
	key, err := a.state.keys.Fresh(ctx, keyID)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	buckets := a.rules.bucketsOf(key, now)
	return buckets.levels(ctx, a.state.backend, now)
}

// OpenStore returns the backend of an option store, in JSON, for the admin API to
// copy from.
func (a *App) OpenStore(option json.RawMessage) (store.Backend, error) {
	options := make(map[string]json.RawMessage)
	if err := json.Unmarshal(option, &options); err != nil {
		return nil, err
	}
	var kind string
	if err := json.Unmarshal(options["module"], &kind); err != nil {
		return nil, errors.New("the kind of the store is missing")
	}
	delete(options, "module")
	info, err := caddy.GetModule("card_gateway.stores." + kind)
	if err != nil {
		return nil, err
	}
	module := info.New()
	text, err := json.Marshal(options)
	if err == nil {
		err = caddy.StrictUnmarshalJSON(text, module)
	}
	if err != nil {
		return nil, err
	}
	if p, ok := module.(caddy.Provisioner); ok {
		if err := p.Provision(caddy.Context{Context: context.Background()}); err != nil {
			return nil, err
		}
	}
	chosen, ok := module.(storeModule)
	switch {
	case !ok:
		return nil, fmt.Errorf("%T is not a store", module)
	case chosen.place() == a.poolKey:
		return nil, errors.New("this is the store of the running gateway itself")
	}
	return chosen.open("")
}

// JWKSet returns the public keys of assertions, for the admin API.
func (a *App) JWKSet() []byte { return a.published.set() }
