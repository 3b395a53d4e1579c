package caddymodule

import (
	"context"
	"log/slog"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// storeLogger returns the logger for stores. A store outlives the configuration
// that opened it, so this is the logger of the current configuration.
func storeLogger() *zap.Logger { return caddy.Log().Named("card_gateway.store") }

// logStoreProblem logs a problem that the embedded store reports.
func logStoreProblem(err error) {
	storeLogger().Warn(err.Error())
}

// storeSlog is the same for a store that logs by slog: each record goes to the
// logger of the current configuration.
type storeSlog struct{}

func (storeSlog) current() slog.Handler {
	return zapslog.NewHandler(storeLogger().Core(), zapslog.WithName("card_gateway.store"), zapslog.AddStacktraceAt(slog.LevelError+1))
}

// Enabled is part of slog.Handler.
func (h storeSlog) Enabled(ctx context.Context, level slog.Level) bool {
	return h.current().Enabled(ctx, level)
}

// Handle is part of slog.Handler.
func (h storeSlog) Handle(ctx context.Context, record slog.Record) error {
	return h.current().Handle(ctx, record)
}

// WithAttrs is part of slog.Handler. The returned handler keeps the logger of
// this moment; stores do not use it, but add their attributes to each record.
func (h storeSlog) WithAttrs(attrs []slog.Attr) slog.Handler { return h.current().WithAttrs(attrs) }

// WithGroup is part of slog.Handler; see WithAttrs.
func (h storeSlog) WithGroup(name string) slog.Handler { return h.current().WithGroup(name) }
