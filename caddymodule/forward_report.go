package caddymodule

import (
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/forward"
)

func countConnections(issuer string, delta int) {
	upstreamConnections.WithLabelValues(issuer).Add(float64(delta))
}

// issuerLog is where problems of issuers are written.
var issuerLog sampledLog

// A sampledLog is the log of the configuration of now: a forwarder outlives the
// one that made it. A flood of problems becomes a few lines: of each kind the
// first of every second are written, then one in many.
type sampledLog struct {
	mu       sync.Mutex
	of       *zap.Logger
	sampling *zap.Logger
}

func (l *sampledLog) current() *zap.Logger {
	now := caddy.Log()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of != now {
		l.of = now
		l.sampling = now.Named("card_gateway.issuers").WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(core, time.Second, refusalsPerSecond, refusalsThen)
		}))
	}
	return l.sampling
}

// logIssuerProblem writes what is wrong with an issuer, in words of our own.
func logIssuerProblem(e *forward.Error) {
	issuerLog.current().Warn("issuer: "+e.Kind.String(), zap.String("kind", e.Kind.String()),
		zap.String("issuer", e.Issuer), zap.String("detail", e.Text))
}
