package request

import (
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestLyingHeaders sends headers that could mislead the issuer about the origin of
// a request, its target and its sender. The issuer must get these only from the
// gateway and from Caddy.
func TestLyingHeaders(t *testing.T) { harness.EachTerminal(t, testLyingHeaders) }

func testLyingHeaders(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	r := key.Post()
	for _, name := range []string{
		"Client-IP", "X-Real-IP", "Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
		"X-Forwarded-Prefix", "X-Script-Name", "X-Envoy-Original-Path", "Remote-User", "X-Forwarded-User", "X-Forwarded-Client-Cert",
		"Proxy", "X-Accel-Redirect", "X-Sendfile", "X-Rewrite-URL", "X-Amzn-Oidc-Identity", "SSL-Client-Verify", "x-authenticated-userid",
	} {
		r.Add(name, "evil")
	}
	harness.WantAccepted(t, g.Send(t, r.Add("X-Card-Id", "c1").Add("Accept-Language", "de").Add("Cookie", "a=b")))
	got := u.One(t)
	if strings.Contains(got.Raw(), "evil") {
		t.Errorf("the upstream received\n%s", got.Raw())
	}
	wantHeaders(t, got, map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "gw.example", "Via": "1.1 Caddy",
		"X-Card-Id": "", "Cookie": "", "Accept-Language": "de",
	})
	if metrics := g.Send(t, &harness.Request{Method: "GET", Target: "/metrics"}).Body; !strings.Contains(metrics, "card_gateway_dropped_headers_total 20\n") {
		t.Error("the metrics do not count what was dropped")
	}
}

// TestClientBehindProxy requires that the issuer gets the address that IP
// whitelists check, and nothing that a client wrote into the header.
func TestClientBehindProxy(t *testing.T) { harness.EachTerminal(t, testClientBehindProxy) }

func testClientBehindProxy(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	s := harness.Site{Upstream: u.Addr, Terminal: terminal, Servers: "trusted_proxies static 127.0.0.1/32\ntrusted_proxies_strict"}
	g := harness.StartGateway(t, s)
	r := g.NewKey(nil).Get().Add("X-Forwarded-For", "198.51.100.9").Add("X-Forwarded-For", "junk, 203.0.113.7")
	harness.WantAccepted(t, g.Send(t, r.Add("X-Forwarded-Proto", "https").Add("X-Forwarded-Host", "evil.example")))
	wantHeaders(t, u.One(t), map[string]string{
		"X-Forwarded-For": "203.0.113.7, 127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "gw.example",
	})

	s.Auth = "pass_header X-Forwarded-Proto"
	g = harness.StartGateway(t, s)
	harness.WantAccepted(t, g.Send(t, g.NewKey(nil).Get().Add("X-Forwarded-Proto", "https")))
	wantHeaders(t, u.One(t), map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-For": "127.0.0.1"})
}

// TestHeadersOnly passes only the headers of a list.
func TestHeadersOnly(t *testing.T) { harness.EachTerminal(t, testHeadersOnly) }

func testHeadersOnly(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Auth: "headers only X-Card-Id Idempotency-Key"})
	r := g.NewKey(nil).JSON("POST", "/api/v1/cards", `{}`)
	harness.WantAccepted(t, g.Send(t, r.Add("X-Card-Id", "c1").Add("Idempotency-Key", "k1").Add("Accept-Language", "de").Add("Cookie", "a=b")))
	wantHeaders(t, u.One(t), map[string]string{
		"X-Card-Id": "c1", "Idempotency-Key": "k1", "Content-Type": "application/json", "Content-Length": "2",
		"Accept-Language": "", "Cookie": "", "X-Gateway-Tenant": "acme",
	})
}

// TestConnectionNames names headers in Connection: the client's own do not
// reach the issuer, and those of the gateway do (RFC 9110, section 7.6.1).
func TestConnectionNames(t *testing.T) { harness.EachTerminal(t, testConnectionNames) }

func testConnectionNames(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Auth: "pass_header X-Card-Id X-Batch-Id"})
	r := g.NewKey(nil).Post().Add("X-Card-Id", "c1").Add("X-Batch-Id", "b1")
	r.Add("Connection", "keep-alive, x-card-id, X-Gateway-Tenant, X-Gateway-Scopes, X-Request-Id, Content-Length, X-Forwarded-For, X-Signature")
	harness.WantAccepted(t, g.Send(t, r))
	got := u.One(t)
	wantHeaders(t, got, map[string]string{"X-Card-Id": "", "X-Batch-Id": "b1", "X-Gateway-Tenant": "acme", "X-Forwarded-For": "127.0.0.1"})
	cleanOf(t, got)
}

// TestIssuerHost sends a Host of the client's choice: the issuer gets its own
// name if the configuration sets that, as Caddyfile.example does. The gateway
// warns about a configuration that sets nothing.
func TestIssuerHost(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	const own = "header_up Host {upstream_hostport}"
	const warning = "sends the issuer the Host that the client wrote"
	for proxy, want := range map[string]string{own: u.Addr, "": "evil.example", "header_up Host {host}": "evil.example"} {
		g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: harness.ReverseProxy, Proxy: proxy})
		r := g.NewKey(nil).Get()
		r.Headers = append([]string{"Host: evil.example"}, r.Headers...)
		harness.WantAccepted(t, g.Send(t, r))
		wantHeaders(t, u.One(t), map[string]string{"Host": want, "X-Forwarded-Host": "evil.example"})
		if warned := strings.Contains(g.ReadFile("default.log"), warning); warned != (proxy == "") {
			t.Errorf("%q: warned %v", proxy, warned)
		}
	}
}

// TestBadHeaderRules starts the gateway with rules that would pass a client's
// headers with the names of the gateway's own.
func TestBadHeaderRules(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"pass_header X-Gateway-Tenant":                    "never passes",
		"pass_header connection":                          "never passes",
		"headers only Accept x_signature":                 "never passes",
		"pass_header X-Forwarded-Proto\nheaders only Via": "exclude each other",
	} {
		g := harness.NewGateway(t, harness.Site{Upstream: "127.0.0.1:9", Auth: rule})
		if said := g.RefusesToStart(); !strings.Contains(said, want) {
			t.Errorf("%s: %s", rule, said)
		}
	}
}
