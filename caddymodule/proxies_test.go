package caddymodule

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// An address that clients may have written themselves is worth a warning, one.
func TestLeftmostAddressIsWarnedOf(t *testing.T) {
	for _, c := range []struct {
		name    string
		trusted bool
		strict  int
		want    int
	}{
		{"no proxy", false, 0, 0}, {"strict", true, 1, 0}, {"left-most", true, 0, 1},
	} {
		core, lines := observer.New(zapcore.WarnLevel)
		app := &App{log: zap.New(core)}
		r := httptest.NewRequest("GET", "/", nil)
		ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.TrustedProxyVarKey: c.trusted})
		ctx = context.WithValue(ctx, caddyhttp.ServerCtxKey, &caddyhttp.Server{TrustedProxiesStrict: c.strict})
		for range 3 {
			app.warnLeftmost(r.WithContext(ctx))
		}
		if lines.Len() != c.want {
			t.Errorf("%s: %d warnings, want %d", c.name, lines.Len(), c.want)
		}
	}
}
