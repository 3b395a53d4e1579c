package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/admin"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/caddymodule/stores"
	"github.com/card-gateway/card-gateway/gate"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// Admin returns the gateway as the admin API uses it; nil before the app is
// provisioned.
func (a *App) Admin() *admin.Gateway {
	if a.state == nil {
		return nil
	}
	return &admin.Gateway{
		Keys: a.state.keys, Tokens: a.tokens, State: a.report, AuditCall: a.telemetry.audit.Write, LoadRefused: a.LoadRefused,
		OpenStore: a.sourceStore, Drain: node.Process.Drain.Operator.Store, LogEachRequest: node.LogEachRequest,
		Refusal: node.Process.Refusals.Find, Refusals: node.Process.Refusals.List, Trail: a.telemetry.audit.Trail, Recent: recent, KeyLimits: a.keyLimits, JWKSet: a.published.set,
	}
}

// report returns the state of the gateway.
func (a *App) report(ctx context.Context) adminapi.State {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	bodies := a.state.bodies
	s := adminapi.State{
		Ready: true, Node: node.View(), Degraded: a.state.degraded(ctx), Policy: a.settings.Policy().Hash(), Loads: node.Process.Loads.Last(),
		Traffic: traffic(), Offenders: node.Process.Offenders.Top(time.Now(), 10), Audit: a.telemetry.audit.State(),
		Bodies: adminapi.BodyMemory{Bytes: bodies.Used(), Limit: bodies.Limit(), Holders: bodies.Largest(10)},
	}
	err := a.state.ready(ctx)
	if err == nil && s.Drained {
		err = node.ErrDrained
	}
	if err != nil {
		s.Ready, s.Reason = false, err.Error()
	}
	return s
}

// LoadRefused writes a line of the audit record for a configuration that was not
// loaded, once for each.
func (a *App) LoadRefused(err error) {
	if !node.Process.Loads.Refused(time.Now(), err) {
		return
	}
	meter.DryRunGauge.Set(float64(a.dryRuns)) // the refused one may have started
	a.telemetry.audit.RefusedLoad(err)
}

// keyLimits returns the buckets of a key as they are now.
func (a *App) keyLimits(ctx context.Context, keyID string) ([]adminapi.Limit, error) {
	key, err := a.state.keys.Fresh(ctx, keyID)
	if err != nil {
		return nil, err
	}
	_, limits, err := a.Levels(ctx, key, time.Now())
	return limits, err
}

// Levels returns what is left at now of the buckets that the requests of a key are
// charged to. It charges nothing.
func (a *App) Levels(ctx context.Context, key *auth.Key, now time.Time) (gate.Buckets, []adminapi.Limit, error) {
	buckets := gate.BucketsOf(a.settings.Table, a.settings.Limits, key, now)
	states, err := buckets.Levels(ctx, a.state.backend, now)
	limits := make([]adminapi.Limit, len(states))
	for i := range states {
		limits[i] = adminapi.NewLimit(&states[i], buckets.Rates[i])
	}
	return buckets, limits, err
}

// Keys returns the keys in the store.
func (a *App) Keys() *keys.Service { return a.state.keys }

// sourceStore returns the backend of an option store, in JSON, for the admin API to
// copy from.
func (a *App) sourceStore(option json.RawMessage) (store.Backend, error) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	chosen, err := stores.Load(ctx, option)
	if err != nil {
		return nil, err
	}
	if chosen.Place() == a.poolKey {
		return nil, errors.New("this is the store of the running gateway itself")
	}
	return chosen.Open("")
}

// recent returns what the process did in the last fifteen minutes.
func recent() adminapi.Recent {
	now := time.Now()
	return adminapi.Recent{At: now.UTC(), Steps: node.Process.Recent.Steps(now), Keys: node.Process.Offenders.Recent(now, 5), Out: meter.IssuersOut()}
}

// totals returns what the steps of [recent] are made of.
func totals() node.Totals {
	return node.Totals{Outcomes: meter.Sums(meter.RequestsTotal, "outcome"), Upstream: meter.Sums(meter.UpstreamResponses, "class"), Times: meter.AnswerTimes()}
}

// traffic returns what the process counted, from its own metrics.
func traffic() adminapi.Traffic {
	decision := func(name string) map[string]uint64 {
		return meter.Sums(meter.LimitDecisions, "operation", "decision", name)
	}
	return adminapi.Traffic{
		Since:         node.Process.Began,
		Outcomes:      meter.Sums(meter.RequestsTotal, "outcome"),
		Upstream:      meter.Sums(meter.UpstreamResponses, "class"),
		Connections:   meter.Sums(meter.UpstreamConnections, "issuer"),
		LimitsNear:    decision(meter.LimitDecisionNames[meter.LimitNear]),
		LimitsRefused: decision(meter.LimitDecisionNames[meter.LimitRefused]),
	}
}
