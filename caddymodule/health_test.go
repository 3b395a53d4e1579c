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
	refuses  bool
	details  store.Details
}

func (b *reportingBackend) Ready(context.Context) error { return b.notReady }

func (b *reportingBackend) Status(context.Context) store.Status {
	return store.Status{Ready: b.notReady == nil, Details: b.details}
}

func (b *reportingBackend) Settle(ctx context.Context, claim *store.Claim) (store.Verdict, error) {
	if b.refuses {
		return store.Verdict{}, store.ErrUnavailable
	}
	return b.Backend.Settle(ctx, claim)
}

// A check that could not be done is no fault while requests are served, and one as soon as
// they are not: when one is refused, and when none has been accepted for a while.
func TestReadyWhileRequestsAreServed(t *testing.T) {
	g := newGate(t)
	s := g.auth.site.state
	backend := &reportingBackend{Backend: s.backend, notReady: errors.New("the servers could not be asked")}
	s.backend = backend
	by := g.signer(store.Fields{})
	want := func(when string, status int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		if err := (&Health{Check: "ready", state: s}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody), nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(w.Body.String()); w.Code != status || got != body {
			t.Errorf("%s: %d %s, want %d %s", when, w.Code, got, status, body)
		}
		if up := testutil.ToFloat64(meter.StoreUp); (up == 1) != (status == 200) {
			t.Errorf("%s: the gauge is %v", when, up)
		}
	}
	const failed = `{"status":"not ready","reason":"the servers could not be asked"}`
	want("before any request", 503, failed)
	g.get(by, "203.0.113.7", func(*http.Request) {})
	want("a request was accepted", 200, `{"status":"ready","degraded":["store"]}`)
	g.get(by, "203.0.113.7", func(r *http.Request) { r.Header.Set("X-Signature", strings.Repeat("A", 43)+"=") })
	want("and one that was not proved", 200, `{"status":"ready","degraded":["store"]}`)
	backend.refuses = true
	g.get(by, "203.0.113.7", func(*http.Request) {})
	want("one was refused by the store", 503, failed)
	backend.refuses = false
	g.get(by, "203.0.113.7", func(*http.Request) {})
	want("one was accepted again", 200, `{"status":"ready","degraded":["store"]}`)
	s.accepted.Store(s.accepted.Load() - int64(servingFor))
	s.failed.Store(0)
	want("the last one was a while ago", 503, failed)
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
