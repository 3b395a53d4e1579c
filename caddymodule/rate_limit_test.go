package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/card-gateway/card-gateway/caddymodule/request"
)

// Without a card_auth behind it, card_rate_limit protects nothing. It logs that
// once, and removes identity headers of the client. With a card_auth it logs
// nothing.
func TestLimitsWithoutAJudge(t *testing.T) {
	for name, judged := range map[string]bool{"without": false, "with": true} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zapcore.ErrorLevel)
			h := &RateLimit{log: zap.New(core)}
			next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
				if r.Header.Get("X-Gateway-Tenant") != "" || len(r.Header["X_Gateway_Scopes"]) > 0 {
					t.Error("a claimed identity goes on")
				}
				if judged && request.LimitsOf(r.Context()) != &h.RateLimitOptions {
					t.Error("the judge does not learn how limits apply")
				}
				return nil
			})
			for range 2 {
				r := httptest.NewRequest("GET", "/api/v1/cards", nil)
				r.Header["X-Gateway-Tenant"], r.Header["X_Gateway_Scopes"] = []string{"acme"}, []string{"*"}
				if err := h.ServeHTTP(httptest.NewRecorder(), r, next); err != nil {
					t.Fatal(err)
				}
			}
			if want := map[bool]int{true: 0, false: 1}[judged]; logs.Len() != want {
				t.Errorf("%d lines, want %d: %v", logs.Len(), want, logs.All())
			}
		})
	}
}
