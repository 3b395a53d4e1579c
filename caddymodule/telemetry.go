package caddymodule

import (
	"context"
	"log"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/audit"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/keys"
)

// telemetry is what one configuration reports to operators: logs, events and
// metrics.
type telemetry struct {
	request.Reporter
	forged   *zap.Logger
	unsealed atomic.Int64 // keys without a seal, as reported last
	audit    *audit.Log
	degraded atomic.Pointer[[]string]                // what was reported last
	emit     func(event string, data map[string]any) // nil: nobody hears events
}

// newTelemetry returns the telemetry that writes to the log and counts in the
// registry.
func newTelemetry(log *zap.Logger, registry *prometheus.Registry, table *auth.Table) (*telemetry, error) {
	takeStandardLog()
	traces := request.Sampled(log.Named("traces"), time.Minute, 1, 0)
	meter.OnLostSpans(func(err error) {
		traces.Warn("spans are lost: the collector of traces does not take them; see OTEL_EXPORTER_OTLP_ENDPOINT in the environment of the gateway", zap.Error(err))
	})
	counters, err := meter.New(registry, table, audit.LogDropped)
	if err != nil {
		return nil, err
	}
	return &telemetry{Reporter: request.NewReporter(log, counters), audit: audit.NewLog(log.Named("audit")), forged: request.Sampled(log, time.Minute, forgedPerMinute, 0)}, nil
}

// forgedPerMinute is how often the log says in a minute that the record of one key
// was forged: every request with the key reads it.
const forgedPerMinute = 3

// takeStandardLog makes the standard library log only the kinds of failure, to
// Caddy's default log. Caddy itself would log the texts, which may quote bytes
// that an upstream sent unasked. Caddy takes the standard log back with each
// configuration that it opens, also with one that it then refuses, so this is
// called again and again.
func takeStandardLog() {
	log.SetFlags(0)
	log.SetPrefix("")
	log.SetOutput(cardlog.StandardLog{Logger: func() *zap.Logger { return caddy.Log().Named("net") }})
}

// keyChanged receives every change of a key, by an operator or by a request. It
// writes a line to the audit log, and emits an event if the change was made.
func (t *telemetry) keyChanged(c keys.Change) {
	t.audit.Write(c)
	if c.Actor != keys.GatewayActor { // no request waits for the disk
		t.audit.Settle(context.Background())
	}
	if name, known := keyEvents[c.Action]; known && c.Err == nil && t.emit != nil {
		t.emit(name, map[string]any{"key_id": c.KeyID, "tenant": c.Tenant, "actor": c.Actor, "claimed": c.Claimed})
	}
}

// keyEvents holds the Caddy event for each action on a key, for other modules.
// The data of each are key_id, tenant and actor.
var keyEvents = map[string]string{
	"create":  "card_gateway.key_created",
	"import":  "card_gateway.key_created",
	"copy":    "card_gateway.key_created",
	"restore": "card_gateway.key_created",
	"disable": "card_gateway.key_disabled",
	"enable":  "card_gateway.key_enabled",
	"lock":    "card_gateway.key_locked",
	"unlock":  "card_gateway.key_unlocked",
	"rotate":  "card_gateway.key_rotated",
	"delete":  "card_gateway.key_deleted",
}

// eventEmitter returns the function that emits events of a configuration.
func eventEmitter(ctx caddy.Context) (func(string, map[string]any), error) {
	events, err := node.Events(ctx)
	return func(name string, data map[string]any) {
		if events.ShouldEmit(name) {
			events.Emit(ctx, name, data)
		}
	}, err
}

// recordForged logs and counts a record that was refused because something other
// than a gateway has changed it.
func (t *telemetry) recordForged(e *keys.ForgedError) {
	meter.ForgedRecordsTotal.WithLabelValues(e.Field).Inc()
	// The sampler compares messages, so the key is part of it.
	t.forged.Error("the record of key "+e.KeyID+" was changed by something other than a gateway; its requests are answered with 503",
		zap.String("key_id", e.KeyID), zap.String("field", e.Field), zap.String("problem", e.Reason()))
}

// reportUnsealed warns when the number of keys without a seal has changed.
func (t *telemetry) reportUnsealed(n int) {
	if t.unsealed.Swap(int64(n)) != int64(n) && n > 0 {
		t.Log.Warn("records of keys have no seal, so whoever can write to the store can grant them anything; check and seal them by `card-keys seal`, then set `seal required`",
			zap.Int("keys", n))
	}
}
