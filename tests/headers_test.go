package tests

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestLyingHeaders sends what a client could use to mislead the issuer about
// where a request comes from, what it asks for and who sent it. The issuer
// learns that from the gateway and from Caddy alone.
func TestLyingHeaders(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	r := key.post()
	for _, name := range []string{
		"Client-IP", "X-Real-IP", "Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
		"X-Forwarded-Prefix", "X-Script-Name", "X-Envoy-Original-Path", "Remote-User", "X-Forwarded-User", "X-Forwarded-Client-Cert",
		"Proxy", "X-Accel-Redirect", "X-Sendfile", "X-Rewrite-URL", "X-Amzn-Oidc-Identity", "SSL-Client-Verify", "x-authenticated-userid",
	} {
		r.add(name, "evil")
	}
	accepted(t, g.send(t, r.add("X-Card-Id", "c1").add("Accept-Language", "de")))
	got := u.one(t)
	if strings.Contains(got.raw(), "evil") {
		t.Errorf("the upstream received\n%s", got.raw())
	}
	wantHeaders(t, got, map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "gw.example", "Via": "1.1 Caddy",
		"X-Card-Id": "c1", "Accept-Language": "de",
	})
}

// TestClientBehindProxy demands that the issuer learns the address that IP
// whitelists see, and nothing that a client wrote into the header itself.
func TestClientBehindProxy(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := site{upstream: u.addr, servers: "trusted_proxies static 127.0.0.1/32\ntrusted_proxies_strict"}
	g := startGateway(t, s)
	r := g.newKey(nil).get().add("X-Forwarded-For", "198.51.100.9").add("X-Forwarded-For", "junk, 203.0.113.7")
	accepted(t, g.send(t, r.add("X-Forwarded-Proto", "https").add("X-Forwarded-Host", "evil.example")))
	wantHeaders(t, u.one(t), map[string]string{
		"X-Forwarded-For": "203.0.113.7, 127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "gw.example",
	})

	s.auth = "pass_header X-Forwarded-Proto"
	g = startGateway(t, s)
	accepted(t, g.send(t, g.newKey(nil).get().add("X-Forwarded-Proto", "https")))
	wantHeaders(t, u.one(t), map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-For": "127.0.0.1"})
}

// TestHeadersOnly turns to a list of what passes.
func TestHeadersOnly(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, auth: "headers only X-Card-Id Idempotency-Key"})
	r := g.newKey(nil).json("POST", "/api/v1/cards", `{}`)
	accepted(t, g.send(t, r.add("X-Card-Id", "c1").add("Idempotency-Key", "k1").add("Accept-Language", "de").add("Cookie", "a=b")))
	wantHeaders(t, u.one(t), map[string]string{
		"X-Card-Id": "c1", "Idempotency-Key": "k1", "Content-Type": "application/json", "Content-Length": "2",
		"Accept-Language": "", "Cookie": "", "X-Gateway-Tenant": "acme",
	})
}

// TestConnectionNames names headers in Connection: the client's own do not
// reach the issuer, and those of the gateway do (RFC 9110, section 7.6.1).
func TestConnectionNames(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	r := g.newKey(nil).post().add("X-Card-Id", "c1").add("X-Batch-Id", "b1")
	r.add("Connection", "keep-alive, x-card-id, X-Gateway-Tenant, X-Gateway-Scopes, X-Request-Id, Content-Length, X-Forwarded-For, X-Signature")
	accepted(t, g.send(t, r))
	got := u.one(t)
	wantHeaders(t, got, map[string]string{"X-Card-Id": "", "X-Batch-Id": "b1", "X-Gateway-Tenant": "acme", "X-Forwarded-For": "127.0.0.1"})
	cleanOf(t, got)
}

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

// TestBadHeaderRules starts the gateway with rules that would let the client
// write what the gateway writes.
func TestBadHeaderRules(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"pass_header X-Gateway-Tenant":                    "never passes",
		"pass_header connection":                          "never passes",
		"headers only Accept x_signature":                 "never passes",
		"pass_header X-Forwarded-Proto\nheaders only Via": "exclude each other",
	} {
		g := newGateway(t, site{upstream: "127.0.0.1:9", auth: rule})
		if said := g.refusesToStart(); !strings.Contains(said, want) {
			t.Errorf("%s: %s", rule, said)
		}
	}
}
