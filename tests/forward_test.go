package tests

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestUpstreamBytes compares the bytes that the upstream receives with the
// bytes that were sent.
func TestUpstreamBytes(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(fields{"tenant": "acme.bank", "scopes": []string{"*", "cards:read"}})
	body := "{ \"a\": 1.10,\r\n\t\"b\":\"\\u00e9 \xc3\xa9\",\"a\":2 }\n"
	for _, r := range []*request{
		key.request("GET", "/api/v1/orders", ""),
		key.request("GET", "/api/v1/orders?", ""),
		key.request("GET", "/api/v1/orders?v", ""),
		key.request("GET", "/api/v1/orders?&a=1&&b=2&", ""),
		key.request("GET", "/api/v1/%6frders/caf%c3%a9?next=%2fhome%3fa%3d1&q=a+b&q=%2B&t[]=~", ""),
		key.request("GET", "/api/v1/orders/", ""),
		key.request("GET", "/api/v1/a;x=1/b!$&'()*,:@=?/?:@!$&'()*,;=", ""),
		key.request("DELETE", "/api/v1/orders/1", ""),
		key.request("HEAD", "/api/v1/cards/c1", ""),
		key.request("GET", "/api/v1/search", `{"a":1}`),
		key.request("POST", "/api/v1/orders", ""),
		key.request("POST", "/api/v1/orders", body),
		key.request("PUT", "/api/v1/orders/1", body),
		key.request("PATCH", "/api/v1/orders/1", "\x00\xff"),
		key.request("POST", "/API/v1/Cards", strings.Repeat(body, 5000)),
	} {
		accepted(t, g.send(t, r.add("Content-Type", "application/json").add("User-Agent", "a client")))
		got := u.one(t)
		if want := r.method + " " + r.target + " HTTP/1.1"; got.line != want {
			t.Errorf("the upstream received the line %q, want %q", got.line, want)
		}
		if got.framed != r.body {
			t.Errorf("%s: the upstream received the bytes %.200q, want %.200q", got.line, got.framed, r.body)
		}
		length := got.value("Content-Length")
		if r.body != "" && length != strconv.Itoa(len(r.body)) || r.body == "" && length != "" && length != "0" {
			t.Errorf("%s: the upstream received Content-Length %q for %d bytes", got.line, length, len(r.body))
		}
		wantHeaders(t, got, map[string]string{
			"X-Gateway-Key-Id": key.id, "X-Gateway-Tenant": "acme.bank", "X-Gateway-Scopes": "* cards:read",
			"User-Agent": "a client", "Content-Type": "application/json", "Host": "gw.example",
		})
		cleanOf(t, got)
	}
}

// wantHeaders checks that each header is there once.
func wantHeaders(t testing.TB, r *received, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := r.value(name); got != value {
			t.Errorf("%s: the upstream received %s %q, want %q", r.line, name, got, value)
		}
	}
}

// cleanOf checks that nothing is there which a client could use to mislead the
// upstream.
func cleanOf(t testing.TB, r *received) {
	t.Helper()
	var identity []string
	for _, line := range r.headers {
		name, _, _ := strings.Cut(line, ":")
		folded := strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name))
		switch folded {
		case "x-api-key", "x-timestamp", "x-nonce", "x-body-hash", "x-signature",
			"expect", "te", "trailer", "transfer-encoding", "upgrade", "connection", "keep-alive", "proxy-connection",
			"early-data", "http2-settings", "x-http-method-override", "x-http-method", "x-method-override",
			"authorization", "proxy-authorization", "x-smuggled":
			t.Errorf("%s: the upstream received %q", r.line, line)
		}
		if strings.HasPrefix(folded, "x-gateway-") {
			identity = append(identity, name)
		}
	}
	slices.Sort(identity)
	want := []string{"X-Gateway-Key-Id", "X-Gateway-Operation", "X-Gateway-Scopes", "X-Gateway-Tenant"}
	if !slices.Equal(identity, want) {
		t.Errorf("%s: the upstream received the identity headers %q, want %q", r.line, identity, want)
	}
	if ids := r.values("X-Request-Id"); len(ids) != 1 || ids[0] == "" {
		t.Errorf("%s: the upstream received X-Request-Id %q, want one", r.line, ids)
	}
}

// TestSpoofedIdentity sends copies of the gateway's headers in every spelling
// that a backend may fold into them.
func TestSpoofedIdentity(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	for name, s := range map[string]site{
		"plain": {upstream: u.addr},
		"with headers that Caddy would drop": {
			upstream: u.addr,
			servers:  "expected_underscore_headers X_Gateway_Tenant x_gateway_key_id X_HTTP_Method_Override\nexpected_dot_headers X.Gateway.*",
		},
		"in dry run": {upstream: u.addr, auth: "dry_run"},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGateway(t, s)
			key := g.newKey(nil)
			for _, line := range []string{
				"X-Gateway-Tenant: evil", "x-gateway-tenant: evil", "X_Gateway_Tenant: evil", "X-Gateway_Tenant: evil",
				"X.Gateway.Tenant: evil", "X-GATEWAY-SCOPES: evil", "X-Gateway-Key-Id: evil", "x_gateway_key_id: evil",
				"X-Gateway-Assertion: evil", "X-Gateway-Anything: evil", "X_Signature: evil", "X_Api_Key: evil",
				"Connection: X-Gateway-Tenant, X-Gateway-Key-Id", "Connection: X-Request-Id", "Connection: close, X-Gateway-Scopes",
				"X-HTTP-Method-Override: DELETE", "X-Method-Override: DELETE", "X_HTTP_Method_Override: DELETE",
				"TE: trailers", "Upgrade: websocket", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive",
				"Authorization: Bearer evil", "Proxy-Authorization: Basic evil", "Early-Data: 1",
			} {
				r := key.post()
				r.headers = append(r.headers, line)
				if strings.HasPrefix(line, "Upgrade") {
					r.add("Connection", "Upgrade")
				}
				accepted(t, g.send(t, r))
				got := u.one(t)
				cleanOf(t, got)
				if strings.Contains(got.raw(), "evil") || strings.Contains(got.raw(), "DELETE") {
					t.Errorf("the upstream received\n%s", got.raw())
				}
				wantHeaders(t, got, map[string]string{"X-Gateway-Tenant": "acme", "X-Gateway-Operation": "issue_card"})
				if t.Failed() {
					t.Fatalf("with %s", line)
				}
			}
		})
	}
}

// TestFraming sends bodies in every framing that a client may choose.
func TestFraming(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for _, c := range []struct {
		name    string
		headers []string
		body    string // that is signed
		framed  string
	}{
		{"chunked", []string{"Transfer-Encoding: chunked"}, "abcdef", chunk("abc") + chunk("def") + "0\r\n\r\n"},
		{"chunked and empty", []string{"Transfer-Encoding: chunked"}, "", "0\r\n\r\n"},
		{"chunk extensions", []string{"Transfer-Encoding: chunked"}, "abc", "3;x=1\r\nabc\r\n0;y\r\n\r\n"},
		{"trailers", []string{"Transfer-Encoding: chunked", "Trailer: X-Smuggled, X-Gateway-Tenant"}, "abc",
			chunk("abc") + "0\r\nX-Smuggled: 1\r\nX-Gateway-Tenant: evil\r\n\r\n"},
		{"trailers that were not announced", []string{"Transfer-Encoding: chunked"}, "abc", chunk("abc") + "0\r\nX-Smuggled: 1\r\n\r\n"},
		{"two equal lengths", []string{"Content-Length: 3", "Content-Length: 3"}, "abc", "abc"},
		{"identity", []string{"Content-Length: 3", "Content-Encoding: identity"}, "abc", "abc"},
	} {
		r := key.request(http.MethodPost, "/api/v1/cards", c.body)
		r.headers = append(r.headers, c.headers...)
		r.body = c.framed
		accepted(t, g.send(t, r))
		got := u.one(t)
		if got.framed != c.body || c.body != "" && got.value("Content-Length") != strconv.Itoa(len(c.body)) {
			t.Errorf("%s: the upstream received\n%s", c.name, got.raw())
		}
		cleanOf(t, got)
	}
}

// TestSensitivePaths checks that both forms reach the upstream as one.
func TestSensitivePaths(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(fields{"scopes": []string{"cards:sensitive"}})
	for sent, want := range map[string]string{
		"/api/v1/cards/c1/sensitive":            "/api/v1/cards/c1/sensitive",
		"/api/v1/card/c1/sensitive":             "/api/v1/cards/c1/sensitive",
		"/api/v1/card/c1/sensitive?":            "/api/v1/cards/c1/sensitive?",
		"/api/v1/card/c%20%2b/sensitive?a=%2f+": "/api/v1/cards/c%20%2b/sensitive?a=%2f+",
		"/api/v1/card/card/sensitive":           "/api/v1/cards/card/sensitive",
		"/api/v1/card/c1/sensitive/":            "/api/v1/cards/c1/sensitive/",
		"/api/v1/cards/c1/sensitive/?a=1":       "/api/v1/cards/c1/sensitive/?a=1",
	} {
		accepted(t, g.send(t, key.request(http.MethodGet, sent, "")))
		got := u.one(t)
		if got.line != "GET "+want+" HTTP/1.1" {
			t.Errorf("%s reached the upstream as %s", sent, got.line)
		}
		wantHeaders(t, got, map[string]string{"X-Gateway-Operation": "get_sensitive_card"})
	}
}

// TestPlaceholders sends what Caddy would expand in its configuration.
func TestPlaceholders(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	const text = "{env.HOME}{http.request.uri}{file./etc/hostname}"
	r := key.request(http.MethodPost, "/api/v1/orders/%7Benv.HOME%7D?q=%7Benv.HOME%7D", text)
	r.set("X-Nonce", "{env.HOME}").add("X-Custom", text).add("User-Agent", text).add("X-Forwarded-For", text).sign(key.secret)
	accepted(t, g.send(t, r))
	got := u.one(t)
	if got.line != "POST "+r.target+" HTTP/1.1" || got.body != text {
		t.Errorf("the upstream received\n%s", got.raw())
	}
	wantHeaders(t, got, map[string]string{"X-Custom": text, "User-Agent": text})
	answer := g.send(t, credentials{"{env.HOME}", key.secret}.get())
	unauthorized(t, answer, unknownKey)
	answer = g.send(t, key.request(http.MethodGet, "/api/v1/{env.HOME}", ""))
	refused(t, answer, http.StatusBadRequest, "BAD_REQUEST")
	// The directory is the value of HOME. The default log names files in it,
	// so there only what the longer text would become is looked for.
	for _, text := range []string{got.raw(), answer.body, g.read("access.log")} {
		if strings.Contains(text, g.dir) {
			t.Errorf("a placeholder was expanded:\n%s", text)
		}
	}
	if strings.Contains(g.read("default.log"), g.dir+"/api/v1/") {
		t.Error("a placeholder was expanded in the default log")
	}
}
