package caddymodule

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/store"
)

// Whatever a request was and came to, what works for it is empty when the next request
// gets it. What outlives it, for the access log, still speaks of this request, and of
// nothing that the next one uses.
func TestNothingStaysOfARequest(t *testing.T) {
	g := newGate(t)
	g.auth.walk.Do(func() {
		g.auth.site.downstream = downstream{self: true, answersOwn: true}
		g.auth.site.gate = g.auth.site.newGate()
	})

	by := g.signer(store.Fields{AllowedIPs: []string{"203.0.113.7"}})
	other := g.signer(store.Fields{AllowedIPs: []string{"198.51.100.0/24"}})
	rapid.Check(t, func(rt *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(rt, "body")
		method := rapid.SampledFrom([]string{http.MethodGet, http.MethodPost}).Draw(rt, "method")
		target := rapid.SampledFrom([]string{"/gateway/v1/key", "/gateway/v1/echo", "/api/v1/cards", "/api/v1/none"}).Draw(rt, "target")
		signer := rapid.SampledFrom([]int{0, 1}).Draw(rt, "signer")
		tampered, panics := rapid.Bool().Draw(rt, "tampered"), rapid.IntRange(0, 9).Draw(rt, "panics") == 0
		r := httptest.NewRequest(method, target, bytes.NewReader(body))
		key := by
		if signer == 1 {
			key = other // its addresses do not fit
		}
		if err := key.Sign(r, body); err != nil {
			rt.Fatal(err)
		}
		if tampered {
			r.Header.Set("X-Nonce", r.Header.Get("X-Nonce")+"x")
		}
		r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: "203.0.113.7"}))
		extra := new(caddyhttp.ExtraLogFields)
		r = r.WithContext(context.WithValue(r.Context(), caddyhttp.ExtraLogFieldsCtxKey, extra))
		var info *request.Info
		func() {
			defer func() { _ = recover() }()
			_ = g.auth.ServeHTTP(httptest.NewRecorder(), r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				if info = request.From(r.Context()); info.Own == nil && info.Operation.Own {
					rt.Error("an operation of the gateway lacks the request")
				}
				if panics {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(http.StatusNoContent)
				return nil
			}))
		}()
		for range 4 {
			if j := judgings.Get(); !reflect.ValueOf(j).Elem().IsZero() {
				rt.Fatalf("a new request begins with what was left of another: %+v", j)
			}
		}
		if info != nil && (info.Key.ID != key.KeyID || info.Own != nil && !panics) {
			rt.Errorf("what is left for the access log has the key %s, its request %v; want the key %s alone", info.Key.ID, info.Own, key.KeyID)
		}
	})
}
