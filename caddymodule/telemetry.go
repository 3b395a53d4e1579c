package caddymodule

import (
	"encoding/json"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/keys"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/auth"
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
	t := &telemetry{log: log, audit: newAuditLog(log.Named("audit")), refused: refusalLogger(log)}
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

// logRefusal writes the one line that explains a refusal: the reason and the
// facts behind it, never a secret, a signature, a nonce or a body.
func (t *telemetry) logRefusal(info *requestInfo, refusal *auth.Refusal) {
	level := zapcore.InfoLevel
	if refusal.Reason.Status() >= http.StatusInternalServerError {
		level = zapcore.ErrorLevel
	}
	if line := t.refused.Check(level, "request refused: "+refusal.Reason.String()); line != nil {
		line.Write(zap.String("reason", refusal.Reason.String()), zap.Inline(refusalFacts{info, refusal}))
	}
}

// refusalFacts are the fields of a refusal's log line.
type refusalFacts struct {
	info    *requestInfo
	refusal *auth.Refusal
}

// MarshalLogObject is part of zapcore.ObjectMarshaler.
func (f refusalFacts) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	info, refusal := f.info, f.refusal
	enc.AddString("request_id", info.RequestID)
	if info.Client != "" {
		enc.AddString("client_ip", info.Client)
	}
	info.fields(enc.AddString)
	if info.Key != nil {
		enc.AddInt("failures", info.failures)
	}
	if info.skew != 0 {
		enc.AddFloat64("skew_seconds", info.skew.Seconds())
	}
	if refusal.Log != "" {
		enc.AddString("detail", refusal.Log)
	}
	if refusal.Cause != nil {
		enc.AddString("error", causeText(refusal))
	}
	if info.dryRun == refusal {
		enc.AddBool("dry_run", true)
	}
	return nil
}

// causeText returns what may be logged of the error behind a refusal. The store
// and its errors are our own. Every other error can quote a client or the
// upstream, so that only its kind is logged.
func causeText(refusal *auth.Refusal) string {
	if refusal.Reason == auth.StoreUnavailable || refusal.Reason == auth.OverBudget {
		return refusal.Cause.Error()
	}
	return cardlog.Failure(refusal.Cause)
}

// takeStandardLog sends the kinds of failure that the standard library logs to
// Caddy's default log. Caddy sends the texts there, which quote what an upstream
// sends without being asked, and takes the standard log back with each
// configuration that it opens, also with one that it then refuses.
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

// keyLocked reports a lock that a request has just announced.
func (t *telemetry) keyLocked(p *passage) {
	keyLocksTotal.Inc()
	t.log.Warn("an API key was locked by consecutive authentication failures; it answers 401 until it is unlocked (card-keys unlock)",
		zap.String("key_id", p.info.Key.ID), zap.String("tenant", p.info.Key.Tenant),
		zap.Int("failures", p.claim.LockAfter), zap.String("client_ip", p.info.Client))
	t.keyChanged(keys.Change{
		At: time.Now(), Actor: keys.GatewayActor, Action: "lock",
		KeyID: p.info.Key.ID, Tenant: p.info.Key.Tenant, Revision: p.claim.NextRevision,
		Fields: []keys.FieldChange{{
			Field: "status", Old: json.RawMessage(`"` + keys.StatusActive + `"`), New: json.RawMessage(`"` + keys.StatusLocked + `"`),
		}},
	})
}
