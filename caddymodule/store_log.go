package caddymodule

import (
	"context"
	"log/slog"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// storeLogger is where stores write. A store outlives the configuration that
// opened it, so the logger is that of the configuration of the moment.
func storeLogger() *zap.Logger { return caddy.Log().Named("card_gateway.store") }

// logStoreProblem writes what the embedded store wants an operator to know.
func logStoreProblem(err error) {
	storeLogger().Warn(err.Error())
}

// storeSlog is the same for a store that writes to slog.
type storeSlog struct {
	wrap func(slog.Handler) slog.Handler // attributes and groups added on the way
}

func (h storeSlog) handler() slog.Handler {
	handler := slog.Handler(zapslog.NewHandler(storeLogger().Core(),
		zapslog.WithName("card_gateway.store"), zapslog.AddStacktraceAt(slog.LevelError+1)))
	if h.wrap != nil {
		handler = h.wrap(handler)
	}
	return handler
}

func (h storeSlog) with(wrap func(slog.Handler) slog.Handler) slog.Handler {
	before := h.wrap
	return storeSlog{wrap: func(handler slog.Handler) slog.Handler {
		if before != nil {
			handler = before(handler)
		}
		return wrap(handler)
	}}
}

// Enabled is part of slog.Handler.
func (h storeSlog) Enabled(ctx context.Context, level slog.Level) bool {
	return h.handler().Enabled(ctx, level)
}

// Handle is part of slog.Handler.
func (h storeSlog) Handle(ctx context.Context, record slog.Record) error {
	return h.handler().Handle(ctx, record)
}

// WithAttrs is part of slog.Handler.
func (h storeSlog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(handler slog.Handler) slog.Handler { return handler.WithAttrs(attrs) })
}

// WithGroup is part of slog.Handler.
func (h storeSlog) WithGroup(name string) slog.Handler {
	return h.with(func(handler slog.Handler) slog.Handler { return handler.WithGroup(name) })
}
