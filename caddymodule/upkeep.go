package caddymodule

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/issuer"
	"github.com/card-gateway/card-gateway/caddymodule/logqueue"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/keys"
)

// How often the store is probed; and how often the changes of other gateways are read,
// and keys are counted if that is due.
const (
	probeEvery = 5 * time.Second
	keysEvery  = time.Second
)

// upkeep is the background work of a configuration.
type upkeep struct {
	state     *state
	telemetry *telemetry
	served    *node.Certificates // nil: nothing uses TLS
	admin     string             // path of the admin socket; empty: there is none
	running   sync.WaitGroup
	cancel    context.CancelFunc // nil before the start
}

func (u *upkeep) start() {
	ctx, cancel := context.WithCancel(context.Background())
	u.cancel = cancel
	u.running.Go(func() { repeat(ctx, probeEvery, u.probe) })
	u.running.Go(func() { repeat(ctx, keysEvery, u.countKeys) })
	u.running.Go(func() { // its error is logged by probe
		repeat(ctx, keysEvery, func(ctx context.Context) { _ = u.state.keys.FollowChanges(ctx) })
	})
}

// stop ends the work and waits for its end. It reports whether there was any.
func (u *upkeep) stop() bool {
	if u.cancel == nil {
		return false
	}
	u.cancel()
	u.running.Wait()
	return true
}

// repeat calls a function at once and then after each pause, until the context ends.
func repeat(ctx context.Context, pause time.Duration, do func(context.Context)) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for do(ctx); ; do(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe warns when the store cannot settle requests, and reports other trouble.
// It also takes the standard log back, which a configuration that Caddy refused
// may have taken, and keeps what was counted for the last fifteen minutes.
func (u *upkeep) probe(ctx context.Context) {
	takeStandardLog()
	node.Process.Recent.Take(time.Now(), totals)
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := u.state.ready(ctx); err != nil && ctx.Err() == nil {
		u.telemetry.Log.Warn("the store cannot settle requests; they are answered with 503", zap.Error(err))
	}
	_ = u.state.audit.Check(ctx) // degraded reports lost lines
	u.state.reportFloor(ctx)
	u.served.Report(time.Now(), issuer.ClientCertificates())
	node.CheckAdminSocket(ctx, u.admin, u.telemetry.Log)
	u.telemetry.reportDegraded(u.state.degraded(ctx))
}

// countKeys refreshes the gauges of the keys. They keep their last values
// while the store cannot answer.
func (u *upkeep) countKeys(ctx context.Context) {
	_ = u.state.keys.Recount(ctx) // its error is logged by probe
	census := u.state.keys.Counted()
	for status, n := range census.Keys {
		meter.KeysByStatus.WithLabelValues(status).Set(float64(n))
	}
	for state, n := range census.Seals {
		meter.KeySeals.WithLabelValues(state).Set(float64(n))
	}
	u.telemetry.reportUnsealed(census.Seals[keys.SealUnsealed])
	for within, n := range census.Expiring {
		meter.KeysExpiring.WithLabelValues(within).Set(float64(n))
	}
}

// degraded returns the current troubles, in the order of degradations, and sets
// the gauge. It does no I/O.
func (s *state) degraded(ctx context.Context) []string {
	status := s.backend.Status(ctx)
	details := status.Details
	found := map[string]bool{"policy": details.PolicyDifferences > 0, "store": !status.Ready && s.serves()}
	for _, what := range details.Degraded {
		if !slices.Contains(meter.Degradations, what) {
			what = "store"
		}
		found[what] = true
	}
	found["admin"] = node.Process.AdminLost.Load()
	found["audit"] = found["audit"] || s.audit.Lagging()
	found["config"] = node.Process.Loads.LastRefused()
	found["drained"] = node.Process.Drain.Forgotten()
	found["log"] = found["log"] || logqueue.Trouble()
	var list []string
	for _, what := range meter.Degradations {
		value := 0.0
		if found[what] {
			value = 1
			list = append(list, what)
		}
		meter.DegradedGauge.WithLabelValues(what).Set(value)
	}
	return list
}

// reportFloor sets the gauge of the replay floor.
func (s *state) reportFloor(ctx context.Context) {
	seconds := 0.0
	if floor := s.backend.Status(ctx).Details.ReplayFloor; !floor.IsZero() {
		seconds = float64(floor.UnixMilli()) / 1000
	}
	meter.ReplayFloor.Set(seconds)
}

// reportDegraded logs the troubles that have begun or ended since the last call.
func (t *telemetry) reportDegraded(now []string) {
	var before []string
	if last := t.degraded.Swap(&now); last != nil {
		before = *last
	}
	for _, what := range now {
		if !slices.Contains(before, what) {
			t.Log.Warn("the gateway is degraded: requests are settled, but something needs an operator", zap.String("what", what))
		}
	}
	for _, what := range before {
		if !slices.Contains(now, what) {
			t.Log.Info("the gateway is no longer degraded", zap.String("what", what))
		}
	}
}
