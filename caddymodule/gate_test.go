package caddymodule

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/caddymodule/settings"
	"github.com/card-gateway/card-gateway/caddymodule/stores"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
)

// gate is the handler card_auth alone, on a store of its own.
type testedGate struct {
	t    testing.TB
	auth *Auth
	keys *keys.Service
}

func newGate(t testing.TB) *testedGate {
	t.Helper()
	return newGateWith(t, zap.NewNop())
}

// newGateWith returns one that writes to the log.
func newGateWith(t testing.TB, log *zap.Logger) *testedGate {
	t.Helper()
	backend, err := file.Open(t.TempDir(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	rules, err := settings.New(&settings.Config{})
	if err != nil {
		t.Fatal(err)
	}
	telemetry := telemetryForTest(t, log)
	state := newState(&stores.Pooled{Backend: backend}, ringForTest(t), rules, telemetry)
	t.Cleanup(state.keys.Stop)
	if err := state.ensureStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := &Auth{AuthOptions: AuthOptions{MaxBody: 1 << 20, BodyTimeout: caddy.Duration(time.Minute)}}
	h.site = site{
		AuthOptions: &h.AuthOptions, settings: rules, state: state, telemetry: telemetry, other: rules.Table.ByName("other"),
	}
	// Those of the process are used up by other tests.
	state.process = node.New()
	return &testedGate{t: t, auth: h, keys: state.keys}
}

// signer returns the credentials of a new key.
func (g *testedGate) signer(f store.Fields) *sign.Signer {
	g.t.Helper()
	f.Tenant = "acme"
	if f.Scopes == nil {
		f.Scopes = []string{"*"}
	}
	made, err := g.keys.Create(g.t.Context(), keys.CreateRequest{Fields: f}, keys.By{Actor: "test"})
	if err != nil {
		g.t.Fatal(err)
	}
	return &sign.Signer{KeyID: made.ID, Secret: made.Secret}
}

// get signs a request for a card, lets the test change it and returns the
// answer. A request that passes is answered with 204.
func (g *testedGate) get(by *sign.Signer, client string, change func(*http.Request)) *httptest.ResponseRecorder {
	g.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/api/v1/cards/c1", nil)
	if err := by.Sign(r, nil); err != nil {
		g.t.Fatal(err)
	}
	change(r)
	w := httptest.NewRecorder()
	g.serve(w, r, client)
	return w
}

// serve handles a request of a client.
func (g *testedGate) serve(w http.ResponseWriter, r *http.Request, client string) {
	g.t.Helper()
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: client}))
	err := g.auth.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}))
	if err != nil {
		g.t.Fatal(err)
	}
}

// Early data over QUIC arrives before the client has proved that it owns its
// address. The address could be forged, so it passes no whitelist.
func TestEarlyDataPassesNoWhitelist(t *testing.T) {
	g := newGate(t)
	listed := g.signer(store.Fields{AllowedIPs: []string{"203.0.113.7"}})
	anywhere := g.signer(store.Fields{})
	early := func(r *http.Request) { r.TLS = &tls.ConnectionState{} }
	complete := func(r *http.Request) { r.TLS = &tls.ConnectionState{HandshakeComplete: true} }
	plain := func(*http.Request) {}
	for name, c := range map[string]struct {
		by     *sign.Signer
		change func(*http.Request)
		status int
	}{
		"early, listed":       {listed, early, http.StatusUnauthorized},
		"complete, listed":    {listed, complete, http.StatusNoContent},
		"without TLS, listed": {listed, plain, http.StatusNoContent},
		"early, no list":      {anywhere, early, http.StatusNoContent},
	} {
		if got := g.get(c.by, "203.0.113.7", c.change); got.Code != c.status {
			t.Errorf("%s: %d %s", name, got.Code, got.Body)
		}
	}
}

// telemetryForTest returns telemetry that writes to the log, for the built-in
// operations.
func telemetryForTest(t testing.TB, log *zap.Logger) *telemetry {
	t.Helper()
	rules, err := settings.New(&settings.Config{})
	if err != nil {
		t.Fatal(err)
	}
	telemetry, err := newTelemetry(log, prometheus.NewPedanticRegistry(), rules.Table)
	if err != nil {
		t.Fatal(err)
	}
	return telemetry
}

func ringForTest(t testing.TB) *keyring.Ring {
	t.Helper()
	ring, err := keyring.Parse("AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=")
	if err != nil {
		t.Fatal(err)
	}
	return ring
}
