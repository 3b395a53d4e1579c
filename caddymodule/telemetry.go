package caddymodule

import (
	"context"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/keys"
)

// A flood of junk must not become a flood of logs: of each reason, the first
// lines of every second are written, then one in many.
const (
	refusalsPerSecond = 20
	refusalsThen      = 1000
)

// telemetry is what one configuration reports to operators: logs, events and
// metrics.
type telemetry struct {
	log      *zap.Logger
	refused  *zap.Logger
	forged   *zap.Logger
	unsealed atomic.Int64 // keys without a seal, as reported last
	audit    *auditLog
	degraded atomic.Pointer[[]string] // what was reported last
	metrics  *metrics
	docsURL  string
	emit     func(event string, data map[string]any) // nil: nobody hears events
}

// newTelemetry returns the telemetry that writes to the log and counts in the
// registry.
func newTelemetry(log *zap.Logger, registry *prometheus.Registry, table *auth.Table) (*telemetry, error) {
	takeStandardLog()
	t := &telemetry{log: log, audit: newAuditLog(log.Named("audit")), refused: refusalLogger(log), forged: forgedLogger(log)}
	var err error
	if t.metrics, err = newMetrics(registry, table); err != nil {
		return nil, err
	}
	return t, nil
}

func refusalLogger(log *zap.Logger) *zap.Logger {
	return log.Named("refusals").WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, refusalsPerSecond, refusalsThen)
	}))
}

// forgedPerMinute is how often the log says in a minute that the record of one key
// was forged: every request with the key reads it.
const forgedPerMinute = 3

func forgedLogger(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Minute, forgedPerMinute, 0)
	}))
}

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

var unredactedOnce sync.Once

// warnUnredacted warns, once in the life of the process, that an access log is
// written without the format card.
func (t *telemetry) warnUnredacted() {
	unredactedOnce.Do(func() {
		go t.log.Warn("an access log is written without `format card`: it shows key ids, signatures, nonces and query values; set `format card` in each log block that receives http.log.access or http.log.error")
	})
}

// keyChanged receives every change of a key, by an operator or by a request. It
// writes a line to the audit log, and emits an event if the change was made.
func (t *telemetry) keyChanged(c keys.Change) {
	t.audit.write(c)
	if c.Actor != keys.GatewayActor { // no request waits for the disk
		t.audit.settle(context.Background())
	}
	if name, known := keyEvents[c.Action]; known && c.Err == nil && t.emit != nil {
		t.emit(name, map[string]any{"key_id": c.KeyID, "tenant": c.Tenant, "actor": c.Actor, "claimed": c.Claimed})
	}
}
