package caddymodule

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/logqueue"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/node"
)

// degraded returns the current troubles, in the order of degradations, and sets
// the gauge. It does no I/O.
func (s *state) degraded(ctx context.Context) []string {
	details := s.backend.Status(ctx).Details
	found := map[string]bool{"policy": details.PolicyDifferences > 0}
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
