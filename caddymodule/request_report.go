package caddymodule

import (
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// count counts the request after its answer. A request without an operation
// counts as other.
func (i *requestInfo) count(other *auth.Operation) {
	operation := i.Operation
	if operation == nil {
		operation = other
	}
	o := &i.telemetry.metrics.operations[operation.Index]
	switch {
	case i.refusal != nil:
		o.refused[i.refusal.Reason].Inc()
	case i.dryRun != nil:
		o.wouldRefuse[i.dryRun.Reason].Inc()
	default:
		o.accepted.Inc()
	}
	exemplar := i.spans.exemplar()
	o.overhead.ObserveWithExemplar(i.overhead.Seconds(), exemplar)
	i.endIssuer()
	i.logAccepted()
	o.upstream.observe(&i.upstream, i.refusal, exemplar)
}

// logRefusal counts a refusal for its key and writes one line that explains a refusal: the reason and the facts,
// never a secret, a signature, a nonce or a body.
func (i *requestInfo) logRefusal(refusal *auth.Refusal) {
	if i == nil {
		return
	}
	if i.Key != nil {
		process.offenders.Add(time.Now(), i.Key.ID, i.Key.Tenant, refusal.Reason.String())
	}
	level := zapcore.InfoLevel
	if refusal.Reason.Status() >= http.StatusInternalServerError {
		level = zapcore.ErrorLevel
	}
	log := i.telemetry.refused
	if logsEachRequest() {
		log = i.telemetry.log.Named("refusals") // not sampled
	}
	if line := log.Check(level, "request refused: "+refusal.Reason.String()); line != nil {
		line.Write(zap.String("reason", refusal.Reason.String()), zap.Inline(refusalFacts{i, refusal}))
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

// causeText returns the text for the log of the error behind a refusal. Errors of
// the store are logged in full. Every other error can quote a client or the
// upstream, so only its kind is logged.
func causeText(refusal *auth.Refusal) string {
	if refusal.Reason == auth.StoreUnavailable || refusal.Reason == auth.OverBudget {
		return refusal.Cause.Error()
	}
	return cardlog.Failure(refusal.Cause)
}
