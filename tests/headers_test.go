package tests

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestIssuerHost sends a Host of the client's choice: the issuer gets its own
// name, as Caddyfile.example says, and a configuration that does not say so is
// warned of.
func TestIssuerHost(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	const own = "header_up Host {upstream_hostport}"
	text, err := json.Marshal(mustAdapt(t, "../Caddyfile.example"))
	if err != nil || !strings.Contains(string(text), `"Host":["{http.reverse_proxy.upstream.hostport}"]`) {
		t.Errorf("the proxy in Caddyfile.example does not say %s: %v", own, err)
	}
	const warning = "sends the issuer the Host that the client wrote"
	for proxy, want := range map[string]string{own: u.addr, "": "evil.example", "header_up Host {host}": "evil.example"} {
		g := startGateway(t, site{upstream: u.addr, proxy: proxy})
		r := g.newKey(nil).get()
		r.headers = append([]string{"Host: evil.example"}, r.headers...)
		accepted(t, g.send(t, r))
		wantHeaders(t, u.one(t), map[string]string{"Host": want, "X-Forwarded-Host": "evil.example"})
		if warned := strings.Contains(g.read("default.log"), warning); warned != (proxy == "") {
			t.Errorf("%q: warned %v", proxy, warned)
		}
	}
}

func mustAdapt(t *testing.T, path string) map[string]any {
	t.Helper()
	config, err := adapt(t, path)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
