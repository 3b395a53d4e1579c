package request

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
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
			if _, got := ClientAddress(r); got.String() != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// behindProxy returns a request from a proxy that wrote the lines, for which
// Caddy has chosen a client.
func behindProxy(chosen string, trusted bool, lines ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.4:1234"
	if len(lines) > 0 {
		r.Header["X-Forwarded-For"] = lines
	}
	vars := map[string]any{caddyhttp.ClientIPVarKey: chosen, caddyhttp.TrustedProxyVarKey: trusted}
	return r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))
}

// The entry that Caddy chose and those right of it must be addresses without a
// zone. Any client may have written the entries left of it.
func TestForwardedAddressesMustBeReadable(t *testing.T) {
	server := &caddyhttp.Server{ClientIPHeaders: []string{"X-Forwarded-For", "X-Real-Ip"}}
	for _, c := range []struct {
		chosen  string
		lines   []string
		refused bool
	}{
		{"203.0.113.7", []string{"203.0.113.7"}, false},
		{"203.0.113.7", []string{"junk, 203.0.113.7"}, false},
		{"203.0.113.7", []string{"junk", "203.0.113.7:80", "10.0.0.5, 10.0.0.6"}, false},
		{"2001:db8::7", []string{"[2001:db8::7]:443,10.0.0.5"}, false},
		{"::ffff:203.0.113.7", []string{"::ffff:203.0.113.7"}, false},
		{"203.0.113.7", []string{"203.0.113.7, junk"}, true},
		{"203.0.113.7", []string{"203.0.113.7, 10.0.0.5%eth0"}, true},
		{"203.0.113.7", []string{"203.0.113.7,"}, true},
		{"203.0.113.7", []string{"203.0.113.7, [2001:db8::1"}, true},
		{"203.0.113.7", []string{"203.0.113.7, _hidden, 10.0.0.5"}, true},
		{"::1", []string{"::1%" + strings.Repeat("a", 4000)}, true},
		{"fe80::1", []string{"fe80::1%eth0"}, true},
		{"10.0.0.4", nil, false},
		{"10.0.0.4", []string{""}, false},
		{"10.0.0.4", []string{"unknown"}, true},
		{"10.0.0.4", []string{"junk, 10.0.0.4"}, true}, // no client was chosen, so all entries count
	} {
		if refusal := CheckForwarded(server, behindProxy(c.chosen, true, c.lines...)); (refusal != nil) != c.refused {
			t.Errorf("%.60q, chosen %s: %v", c.lines, c.chosen, refusal)
		}
	}
	if refusal := CheckForwarded(server, behindProxy("10.0.0.4", false, "junk")); refusal != nil {
		t.Errorf("what a client writes by itself is not read: %v", refusal)
	}
	r := behindProxy("203.0.113.7", true)
	r.Header["X-Real-Ip"] = []string{"203.0.113.7", "junk"}
	if CheckForwarded(server, r) == nil {
		t.Error("another header of the server's list is not read")
	}
}

func TestClientIsTold(t *testing.T) {
	for _, c := range []struct {
		chosen  string
		trusted bool
		want    string
	}{
		{"203.0.113.7", true, "203.0.113.7"},
		{"10.0.0.4", true, ""},
		{"10.0.0.4", false, ""},
	} {
		r := behindProxy(c.chosen, c.trusted)
		TellClient(r)
		if got := r.Header.Get("X-Forwarded-For"); got != c.want {
			t.Errorf("%s is told as %q, want %q", c.chosen, got, c.want)
		}
	}
}
