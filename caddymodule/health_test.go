package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/store"
)

// reportingBackend is a backend whose status the test sets.
type reportingBackend struct {
	store.Backend
	notReady error
	details  store.Details
}

func (b *reportingBackend) Ready(context.Context) error { return b.notReady }

func (b *reportingBackend) Status(context.Context) store.Status {
	return store.Status{Details: b.details}
}

// Ready is 503 while requests are not settled and while the gateway shuts down.
// Otherwise it is 200 with the names of all other troubles.
func TestReadyAndDegraded(t *testing.T) {
	s := newGate(t).auth.site.state
	backend := &reportingBackend{Backend: s.backend}
	s.backend = backend
	h := &Health{Check: "ready", state: s}
	for _, tt := range []struct {
		name     string
		notReady error
		details  store.Details
		draining any
		status   int
		body     string
	}{
		{name: "well", status: 200, body: `{"status":"ready"}`},
		{name: "store down", notReady: errors.New("no answer"), status: 503, body: `{"status":"not ready","reason":"no answer"}`},
		{name: "draining", draining: true, status: 503, body: `{"status":"not ready","reason":"the gateway is shutting down"}`},
		{name: "not draining", draining: false, status: 200, body: `{"status":"ready"}`},
		{name: "keys", details: store.Details{Degraded: []string{"keys"}}, status: 200, body: `{"status":"ready","degraded":["keys"]}`},
		{name: "not ours", details: store.Details{Degraded: []string{"moon", "tide"}}, status: 200, body: `{"status":"ready","degraded":["store"]}`},
		{name: "policy", details: store.Details{PolicyDifferences: 2}, status: 200, body: `{"status":"ready","degraded":["policy"]}`},
		{
			name: "down, and degraded", notReady: errors.New("no answer"), details: store.Details{Degraded: []string{"keys"}},
			status: 503, body: `{"status":"not ready","reason":"no answer"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			backend.notReady, backend.details = tt.notReady, tt.details
			replacer := caddy.NewReplacer()
			if tt.draining != nil {
				replacer.Set("http.shutting_down", tt.draining)
			}
			r := httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody)
			r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, replacer))
			w := httptest.NewRecorder()
			if err := h.ServeHTTP(w, r, nil); err != nil {
				t.Fatal(err)
			}
			if body := strings.TrimSpace(w.Body.String()); w.Code != tt.status || body != tt.body {
				t.Errorf("answered %d %s, want %d %s", w.Code, body, tt.status, tt.body)
			}
			s.degraded(t.Context()) // as the refresh does every five seconds
			for _, what := range meter.Degradations {
				want := 0.0
				if strings.Contains(tt.body, `"`+what+`"`) || tt.name == "down, and degraded" && what == "keys" {
					want = 1
				}
				if got := testutil.ToFloat64(meter.DegradedGauge.WithLabelValues(what)); got != want {
					t.Errorf("card_gateway_degraded{what=%q} is %v, want %v", what, got, want)
				}
			}
		})
	}
}
