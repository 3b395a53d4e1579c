package caddymodule

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/store"
)

// slowBody is a body whose reads take a while.
type slowBody struct {
	io.Reader
	wait time.Duration
}

func (b slowBody) Read(p []byte) (int, error) {
	time.Sleep(b.wait) // inside a bubble: no time passes outside
	return b.Reader.Read(p)
}

// A key that ends while the body of its request arrives is expired, although it
// was live when the request was judged.
func TestKeyExpiresWhileTheBodyArrives(t *testing.T) {
	for _, c := range []struct {
		name    string
		expires time.Duration
		answer  string // part of it; empty: let through
	}{
		{"before the end", 5 * time.Second, "API key has expired"},
		{"after the end", 5 * time.Minute, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))) // a bubble begins in 2000, too early for ten digits
				g := newGate(t)
				by := g.signer(store.Fields{ExpiresAt: time.Now().Add(c.expires)})
				body := "a body of no operation"
				r := httptest.NewRequest(http.MethodPost, "/api/v1/other", nil)
				if err := by.Sign(r, []byte(body)); err != nil {
					t.Fatal(err)
				}
				r.Body, r.ContentLength = io.NopCloser(slowBody{strings.NewReader(body), 10 * time.Second}), int64(len(body))
				r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: "203.0.113.7"}))
				w, passed := httptest.NewRecorder(), false
				err := g.auth.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
					passed = true
					w.WriteHeader(http.StatusNoContent)
					return nil
				}))
				if err != nil {
					t.Fatal(err)
				}
				if passed != (c.answer == "") || !strings.Contains(w.Body.String(), c.answer) {
					t.Errorf("let through: %v, answer %d %s", passed, w.Code, w.Body)
				}
			})
		})
	}
}
