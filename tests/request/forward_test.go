package request

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestUpstreamBytes compares the bytes that the upstream receives with the
// bytes that were sent.
func TestUpstreamBytes(t *testing.T) { harness.EachTerminal(t, testUpstreamBytes) }

func testUpstreamBytes(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	host := map[string]string{harness.CardForward: u.Addr, harness.ReverseProxy: "gw.example"}[terminal]
	key := g.NewKey(harness.Fields{"tenant": "acme.bank", "scopes": []string{"*", "cards:read"}})
	body := "{ \"a\": 1.10,\r\n\t\"b\":\"\\u00e9 \xc3\xa9\",\"a\":2 }\n"
	for _, r := range []*harness.Request{
		key.Request("GET", "/api/v1/orders", ""),
		key.Request("GET", "/api/v1/orders?", ""),
		key.Request("GET", "/api/v1/orders?v", ""),
		key.Request("GET", "/api/v1/orders?&a=1&&b=2&", ""),
		key.Request("GET", "/api/v1/%6frders/caf%c3%a9?next=%2fhome%3fa%3d1&q=a+b&q=%2B&t[]=~", ""),
		key.Request("GET", "/api/v1/orders/", ""),
		key.Request("GET", "/api/v1/a;x=1/b!$&'()*,:@=?/?:@!$&'()*,;=", ""),
		key.Request("DELETE", "/api/v1/orders/1", ""),
		key.Request("HEAD", "/api/v1/cards/c1", ""),
		key.Request("GET", "/api/v1/search", `{"a":1}`),
		key.Request("POST", "/api/v1/orders", ""),
		key.Request("POST", "/api/v1/orders", body),
		key.Request("PUT", "/api/v1/orders/1", body),
		key.Request("PATCH", "/api/v1/orders/1", "\x00\xff"),
		key.Request("POST", "/API/v1/Cards", strings.Repeat(body, 5000)),
	} {
		harness.WantAccepted(t, g.Send(t, r.Add("Content-Type", "application/json").Add("User-Agent", "a client")))
		got := u.One(t)
		if want := r.Method + " " + r.Target + " HTTP/1.1"; got.Line != want {
			t.Errorf("the upstream received the line %q, want %q", got.Line, want)
		}
		if got.Framed != r.Body {
			t.Errorf("%s: the upstream received the bytes %.200q, want %.200q", got.Line, got.Framed, r.Body)
		}
		length := got.Value("Content-Length")
		if r.Body != "" && length != strconv.Itoa(len(r.Body)) || r.Body == "" && length != "" && length != "0" {
			t.Errorf("%s: the upstream received Content-Length %q for %d bytes", got.Line, length, len(r.Body))
		}
		wantHeaders(t, got, map[string]string{
			"X-Gateway-Key-Id": key.ID, "X-Gateway-Tenant": "acme.bank", "X-Gateway-Scopes": "* cards:read",
			"User-Agent": "a client", "Content-Type": "application/json", "Host": host,
		})
		cleanOf(t, got)
	}
}

// wantHeaders checks that each header is present once.
func wantHeaders(t testing.TB, r *harness.Received, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := r.Value(name); got != value {
			t.Errorf("%s: the upstream received %s %q, want %q", r.Line, name, got, value)
		}
	}
}

// cleanOf checks that the request has no header that could mislead the
// upstream.
func cleanOf(t testing.TB, r *harness.Received) {
	t.Helper()
	var identity []string
	for _, line := range r.Headers {
		name, _, _ := strings.Cut(line, ":")
		folded := strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(name))
		switch folded {
		case "x-api-key", "x-timestamp", "x-nonce", "x-body-hash", "x-signature",
			"expect", "te", "trailer", "transfer-encoding", "upgrade", "connection", "keep-alive", "proxy-connection",
			"early-data", "http2-settings", "x-http-method-override", "x-http-method", "x-method-override",
			"authorization", "proxy-authorization", "x-smuggled":
			t.Errorf("%s: the upstream received %q", r.Line, line)
		}
		if strings.HasPrefix(folded, "x-gateway-") {
			identity = append(identity, name)
		}
	}
	slices.Sort(identity)
	want := []string{"X-Gateway-Key-Id", "X-Gateway-Operation", "X-Gateway-Scopes", "X-Gateway-Tenant"}
	if !slices.Equal(identity, want) {
		t.Errorf("%s: the upstream received the identity headers %q, want %q", r.Line, identity, want)
	}
	if ids := r.Values("X-Request-Id"); len(ids) != 1 || ids[0] == "" {
		t.Errorf("%s: the upstream received X-Request-Id %q, want one", r.Line, ids)
	}
}

// TestSpoofedIdentity sends copies of the gateway's headers in every spelling
// that a backend may fold into them.
func TestSpoofedIdentity(t *testing.T) { harness.EachTerminal(t, testSpoofedIdentity) }

func testSpoofedIdentity(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	for name, s := range map[string]harness.Site{
		"plain": {Upstream: u.Addr, Terminal: terminal},
		"with headers that Caddy would drop": {
			Upstream: u.Addr, Terminal: terminal,
			Servers: "expected_underscore_headers X_Gateway_Tenant x_gateway_key_id X_HTTP_Method_Override\nexpected_dot_headers X.Gateway.*",
		},
		"in dry run": {Upstream: u.Addr, Terminal: terminal, Auth: "dry_run"},
	} {
		t.Run(name, func(t *testing.T) {
			g := harness.StartGateway(t, s)
			key := g.NewKey(nil)
			for _, line := range []string{
				"X-Gateway-Tenant: evil", "x-gateway-tenant: evil", "X_Gateway_Tenant: evil", "X-Gateway_Tenant: evil",
				"X.Gateway.Tenant: evil", "X-GATEWAY-SCOPES: evil", "X-Gateway-Key-Id: evil", "x_gateway_key_id: evil",
				"X-Gateway-Assertion: evil", "X-Gateway-Anything: evil", "X_Signature: evil", "X_Api_Key: evil",
				"Connection: X-Gateway-Tenant, X-Gateway-Key-Id", "Connection: X-Request-Id", "Connection: close, X-Gateway-Scopes",
				"X-HTTP-Method-Override: DELETE", "X-Method-Override: DELETE", "X_HTTP_Method_Override: DELETE",
				"TE: trailers", "Upgrade: websocket", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive",
				"Authorization: Bearer evil", "Proxy-Authorization: Basic evil", "Early-Data: 1",
			} {
				r := key.Post()
				r.Headers = append(r.Headers, line)
				if strings.HasPrefix(line, "Upgrade") {
					r.Add("Connection", "Upgrade")
				}
				harness.WantAccepted(t, g.Send(t, r))
				got := u.One(t)
				cleanOf(t, got)
				if strings.Contains(got.Raw(), "evil") || strings.Contains(got.Raw(), "DELETE") {
					t.Errorf("the upstream received\n%s", got.Raw())
				}
				wantHeaders(t, got, map[string]string{"X-Gateway-Tenant": "acme", "X-Gateway-Operation": "issue_card"})
				if t.Failed() {
					t.Fatalf("with %s", line)
				}
			}
		})
	}
}

// TestFraming sends bodies in every framing that a client may use.
func TestFraming(t *testing.T) { harness.EachTerminal(t, testFraming) }

func testFraming(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
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
		r := key.Request(http.MethodPost, "/api/v1/cards", c.body)
		r.Headers = append(r.Headers, c.headers...)
		r.Body = c.framed
		harness.WantAccepted(t, g.Send(t, r))
		got := u.One(t)
		if got.Framed != c.body || c.body != "" && got.Value("Content-Length") != strconv.Itoa(len(c.body)) {
			t.Errorf("%s: the upstream received\n%s", c.name, got.Raw())
		}
		cleanOf(t, got)
	}
}

// TestSensitivePaths checks that both forms reach the upstream as one.
func TestSensitivePaths(t *testing.T) { harness.EachTerminal(t, testSensitivePaths) }

func testSensitivePaths(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(harness.Fields{"scopes": []string{"cards:sensitive"}})
	for sent, want := range map[string]string{
		"/api/v1/cards/c1/sensitive":            "/api/v1/cards/c1/sensitive",
		"/api/v1/card/c1/sensitive":             "/api/v1/cards/c1/sensitive",
		"/api/v1/card/c1/sensitive?":            "/api/v1/cards/c1/sensitive?",
		"/api/v1/card/c%20%2b/sensitive?a=%2f+": "/api/v1/cards/c%20%2b/sensitive?a=%2f+",
		"/api/v1/card/card/sensitive":           "/api/v1/cards/card/sensitive",
		"/api/v1/card/c1/sensitive/":            "/api/v1/cards/c1/sensitive/",
		"/api/v1/cards/c1/sensitive/?a=1":       "/api/v1/cards/c1/sensitive/?a=1",
	} {
		harness.WantAccepted(t, g.Send(t, key.Request(http.MethodGet, sent, "")))
		got := u.One(t)
		if got.Line != "GET "+want+" HTTP/1.1" {
			t.Errorf("%s reached the upstream as %s", sent, got.Line)
		}
		wantHeaders(t, got, map[string]string{"X-Gateway-Operation": "get_sensitive_card"})
	}
}

// TestPlaceholders sends placeholders that Caddy would expand in its configuration.
func TestPlaceholders(t *testing.T) { harness.EachTerminal(t, testPlaceholders) }

func testPlaceholders(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Auth: "pass_header X-Custom"})
	key := g.NewKey(nil)
	const text = "{env.HOME}{http.request.uri}{file./etc/hostname}"
	r := key.Request(http.MethodPost, "/api/v1/orders/%7Benv.HOME%7D?q=%7Benv.HOME%7D", text)
	r.Set("X-Nonce", "{env.HOME}").Add("X-Custom", text).Add("User-Agent", text).Add("X-Forwarded-For", text).Sign(key.Secret)
	harness.WantAccepted(t, g.Send(t, r))
	got := u.One(t)
	if got.Line != "POST "+r.Target+" HTTP/1.1" || got.Body != text {
		t.Errorf("the upstream received\n%s", got.Raw())
	}
	wantHeaders(t, got, map[string]string{"X-Custom": text, "User-Agent": text})
	answer := g.Send(t, harness.Credentials{ID: "{env.HOME}", Secret: key.Secret}.Get())
	harness.WantUnauthorized(t, answer, harness.UnknownKey)
	answer = g.Send(t, key.Request(http.MethodGet, "/api/v1/{env.HOME}", ""))
	harness.WantRefused(t, answer, http.StatusBadRequest, "BAD_REQUEST")
	// The directory is the value of HOME. The default log names files in it, so
	// there the test searches only the expansion of the longer text.
	for _, text := range []string{got.Raw(), answer.Body, g.ReadFile("access.log")} {
		if strings.Contains(text, g.Dir) {
			t.Errorf("a placeholder was expanded:\n%s", text)
		}
	}
	if strings.Contains(g.ReadFile("default.log"), g.Dir+"/api/v1/") {
		t.Error("a placeholder was expanded in the default log")
	}
}
