package caddymodule

import (
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// thisNode is what operators have changed of this process; it outlives
// configurations.
var thisNode node

type node struct {
	drained atomic.Pointer[time.Time] // until when the operator wants it, zero if nobody said; nil: it is in service
	debug   atomic.Int64              // until when each request is logged, in nanoseconds of Unix time; 0: no more
}

var errDrained = errors.New("an operator has taken this gateway out of service (card-node drain)")

// eachRequest reports whether the log has a line for each request.
func (n *node) eachRequest() bool {
	until := n.debug.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// forgotten reports whether the node is drained and should be in service: the time
// of the operator's work is over, or none was named.
func (n *node) forgotten() bool {
	until := n.drained.Load()
	return until != nil && !time.Now().Before(*until)
}

func (n *node) state() keyadmin.Node {
	until := n.drained.Load()
	s := keyadmin.Node{Drained: until != nil}
	if s.Drained && !until.IsZero() {
		s.DrainedUntil = new(until.UTC())
	}
	if n.eachRequest() {
		until := time.Unix(0, n.debug.Load()).UTC()
		s.DebugUntil = &until
	}
	return s
}

// Drain makes /readyz answer 503, for the admin API. It is in order until a time;
// the zero time is the past.
func (*App) Drain(until time.Time) { thisNode.drained.Store(&until) }

// Undrain ends Drain.
func (*App) Undrain() { thisNode.drained.Store(nil) }

// LogEachRequest makes the log have a line for each request until a time, for the
// admin API.
func (*App) LogEachRequest(until time.Time) {
	if until.IsZero() {
		thisNode.debug.Store(0)
		return
	}
	thisNode.debug.Store(until.UnixNano())
}

// logAccepted writes a line for an accepted request, while an operator wants one
// for each.
func (i *requestInfo) logAccepted() {
	if i.refusal == nil && i.dryRun == nil && thisNode.eachRequest() {
		fields := zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
			i.fields(enc.AddString)
			return nil
		})
		i.telemetry.log.Named("requests").Info("request accepted", zap.String("request_id", i.RequestID),
			zap.String("client_ip", i.Client), zap.Duration("overhead", i.overhead), zap.Inline(fields))
	}
}
