package caddymodule

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// logsEachRequest reports whether the log has a line for each request.
func logsEachRequest() bool {
	until := process.debugUntil.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// nodeView returns what operators have changed of this process.
func nodeView() keyadmin.Node {
	until := process.drain.operator.Load()
	s := keyadmin.Node{Drained: until != nil}
	if s.Drained && !until.IsZero() {
		s.DrainedUntil = new(until.UTC())
	}
	if logsEachRequest() {
		until := time.Unix(0, process.debugUntil.Load()).UTC()
		s.DebugUntil = &until
	}
	return s
}

// logEachRequest makes the log have a line for each request until a time; the zero
// time ends it.
func logEachRequest(until time.Time) {
	if until.IsZero() {
		process.debugUntil.Store(0)
		return
	}
	process.debugUntil.Store(until.UnixNano())
}

// logAccepted writes a line for an accepted request, while an operator wants one
// for each.
func (i *requestInfo) logAccepted() {
	if i.refusal == nil && i.dryRun == nil && logsEachRequest() {
		fields := zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
			i.fields(enc.AddString)
			return nil
		})
		i.telemetry.log.Named("requests").Info("request accepted", zap.String("request_id", i.RequestID),
			zap.String("client_ip", i.Client), zap.Duration("overhead", i.overhead), zap.Inline(fields))
	}
}
