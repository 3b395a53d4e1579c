package caddymodule

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestClientAddress(t *testing.T) {
	for _, c := range []struct {
		name, peer, client string
		trusted            bool
		want               string
	}{
		{"direct", "203.0.113.7:1234", "203.0.113.7", false, "203.0.113.7"},
		{"mapped", "[::ffff:203.0.113.7]:1234", "::ffff:203.0.113.7", false, "203.0.113.7"},
		{"v6 with a zone", "[fe80::1%eth0]:1234", "fe80::1", false, "fe80::1"},
		{"behind a proxy", "10.0.0.4:1234", "203.0.113.7", true, "203.0.113.7"},
		{"a proxy that names nobody", "10.0.0.4:1234", "10.0.0.4", true, "invalid IP"},
		{"a mapped proxy that names nobody", "[::ffff:10.0.0.4]:1234", "10.0.0.4", true, "invalid IP"},
		{"a unix socket that names nobody", "@", "@", true, "invalid IP"},
		{"unknown", "10.0.0.4:1234", "", false, "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = c.peer
			vars := map[string]any{caddyhttp.ClientIPVarKey: c.client, caddyhttp.TrustedProxyVarKey: c.trusted}
			r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))
			if _, got := clientAddress(r); got.String() != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
