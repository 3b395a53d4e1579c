package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/card-gateway/card-gateway/auth"
)

// A handler that needs a judged request refuses every other one: nobody may know
// whose key it names. The answer is the gateway's own, and it is counted.
func TestHandlersWithoutAuth(t *testing.T) {
	for name, handler := range map[string]func(unjudged) caddyhttp.MiddlewareHandler{
		"card_forward":   func(u unjudged) caddyhttp.MiddlewareHandler { return &Forward{unjudged: u} },
		"card_self":      func(u unjudged) caddyhttp.MiddlewareHandler { return &Self{Rotate: true, unjudged: u} },
		"card_translate": func(u unjudged) caddyhttp.MiddlewareHandler { return &Translate{unjudged: u} },
	} {
		core, lines := observer.New(zap.ErrorLevel)
		telemetry := telemetryForTest(t, zap.New(core))
		table, err := auth.NewTable(nil)
		if err != nil {
			t.Fatal(err)
		}
		h := handler(unjudged{&telemetry.reporter, table.ByName(auth.OtherOperation)})
		requests := []string{"GET /gateway/v1/key", "POST /gateway/v1/echo", "POST /gateway/v1/key/rotate", "GET /api/v1/Customers"}
		counter := requestsTotal.WithLabelValues(auth.OtherOperation, auth.InternalError.String())
		before := testutil.ToFloat64(counter)
		for _, request := range requests {
			method, path, _ := strings.Cut(request, " ")
			w := httptest.NewRecorder()
			err := h.ServeHTTP(w, httptest.NewRequest(method, path, nil), nil)
			if err != nil || w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "INTERNAL_ERROR") || w.Header().Get("X-Request-Id") == "" {
				t.Errorf("%s without card_auth answers %d %s %v, %v", name, w.Code, w.Body, w.Header(), err)
			}
		}
		if got := testutil.ToFloat64(counter) - before; got != float64(len(requests)) {
			t.Errorf("%s without card_auth: %g of %d are counted", name, got, len(requests))
		}
		if !strings.Contains(lines.All()[0].Message, name+" runs where card_auth has not run before; put card_auth in front of it") {
			t.Errorf("the log says %+v", lines.All())
		}
	}
}
