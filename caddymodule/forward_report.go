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

// A sampledLog writes to the log of the current configuration, because a
// forwarder outlives the configuration that made it. It shortens a flood of
// problems: of each kind it writes the first lines of every second, then one in
// many.
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

// logIssuerProblem logs a problem of an issuer, with the gateway's own text.
func logIssuerProblem(e *forward.Error) {
	process.issuerLog.current().Warn("issuer: "+e.Kind.String(), zap.String("kind", e.Kind.String()),
		zap.String("issuer", e.Issuer), zap.String("detail", e.Text))
}
