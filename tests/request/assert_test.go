package request

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// asserted checks the assertion of a request that reached the upstream against
// the request that was sent.
func asserted(t testing.TB, g *harness.Gateway, sent *harness.Request, got *harness.Received) *harness.Claims {
	t.Helper()
	claims, err := got.Assertion(g.ReadFile("assert.key"), time.Now())
	if err != nil {
		t.Fatalf("%s: %v\n%s", got.Line, err, got.Raw())
	}
	if want := sent.UseID(); claims.Jti != want {
		t.Errorf("%s: jti is %q, want %q", got.Line, claims.Jti, want)
	}
	return claims
}

func eachAlgorithm(t *testing.T, test func(t *testing.T, s harness.Site)) {
	harness.EachTerminal(t, func(t *testing.T, terminal string) {
		for _, algorithm := range []string{"EdDSA", "HS256"} {
			t.Run(algorithm, func(t *testing.T) {
				t.Parallel()
				test(t, harness.Site{Assert: algorithm, Terminal: terminal})
			})
		}
	})
}

// TestAssertion sends what can be forwarded and checks that each assertion is
// about exactly the bytes that the upstream has received.
func TestAssertion(t *testing.T) { eachAlgorithm(t, testAssertion) }

func testAssertion(t *testing.T, s harness.Site) {
	u := harness.StartUpstream(t)
	s.Upstream = u.Addr
	g := harness.StartGateway(t, s)
	key := g.NewKey(harness.Fields{"tenant": "acme.bank", "scopes": []string{"*", "cards:read"}})
	ids := make(map[string]bool)
	for _, r := range []*harness.Request{
		key.Get(),
		key.Post(),
		key.Request("GET", "/api/v1/orders?", ""),
		key.Request("GET", "/api/v1/%6frders/caf%c3%a9?next=%2fhome%3fa%3d1&q=a+b&q=%2B&t[]=~", ""),
		key.Request("GET", "/api/v1/orders?q=\"<>{}|^`\\\\u0041", ""),
		key.Request("HEAD", "/api/v1/cards/c1", ""),
		key.Request("DELETE", "/api/v1/orders/1", ""),
		key.Request("GET", "/api/v1/card/c1/sensitive", ""),
		key.Request("GET", "/api/v1/search", `{"a":1}`),
		key.Request("PATCH", "/api/v1/orders/1", "\x00\xff"),
		key.Request("POST", "/api/v1/orders", ""),
		key.Request("POST", "/api/v1/orders", strings.Repeat("large ", 50000)),
		key.Post().Add("X-Gateway-Assertion", "evil").Add("x_gateway_assertion", "evil").Add("Connection", "X-Gateway-Assertion"),
		key.Post().Set("X-Request-Id", "of-the-client"),
	} {
		harness.WantAccepted(t, g.Send(t, r))
		got := u.One(t)
		claims := asserted(t, g, r, got)
		if ids[claims.Jti] {
			t.Errorf("%s: the jti was used before", got.Line)
		}
		ids[claims.Jti] = true
		if strings.Contains(got.Raw(), "evil") {
			t.Errorf("the upstream received\n%s", got.Raw())
		}
	}
}

// TestAssertionOfTranslatedBody checks that the digest is that of the body which
// the upstream gets.
func TestAssertionOfTranslatedBody(t *testing.T) {
	harness.EachTerminal(t, func(t *testing.T, terminal string) {
		u := harness.StartUpstream(t)
		g := harness.NewGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Assert: "EdDSA"})
		g.Site.Routes = "card_auth {\n" + g.AssertBlock() + "}\ncard_translate\n" + g.Site.ToIssuer()
		g.Start()
		key := g.NewKey(nil)
		const body = `{"type":"individual","email":"a@example.com","phoneCode":"+44","phoneNumber":"1","country":"GB","firstName":"A","lastName":"B","dateOfBirth":"1990-01-02","gender":"female"}`
		for _, size := range []int{0, 100 << 10} { // in one piece, and in blocks
			r := key.JSON("POST", "/api/v1/Customers", body+strings.Repeat(" ", size))
			u.Replies(harness.Answer(500, `{}`, "Content-Type: application/json"))
			if answer := g.Send(t, r); answer.Status != http.StatusInternalServerError {
				t.Fatalf("%v", answer)
			}
			got := u.One(t)
			if got.Body == r.Body || !strings.Contains(got.Body, "first_name") {
				t.Fatalf("the body was not translated: %.300s", got.Body)
			}
			asserted(t, g, r, got)
		}
	})
}

// TestAssertionCannotLie puts handlers behind card_auth that change the request.
// card_forward asserts what it sends; with reverse_proxy the gateway refuses.
func TestAssertionCannotLie(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		between, proxy string
		refused        bool // by a site with reverse_proxy
	}{
		"another path":        {between: "rewrite * /other/{uri}", refused: true},
		"another method":      {between: "method DELETE", refused: true},
		"rewritten by proxy":  {proxy: "rewrite /other", refused: true},
		"method of the proxy": {proxy: "method DELETE", refused: true},
		"another body":        {between: "request_body {\nset other\n}", refused: true},
		"harmless":            {between: "vars a b\nrequest_header X-A b\nencode gzip", refused: false},
	} {
		for _, terminal := range []string{harness.CardForward, harness.ReverseProxy} {
			if c.proxy != "" && terminal == harness.CardForward {
				continue
			}
			t.Run(name+"/"+terminal, func(t *testing.T) {
				t.Parallel()
				u := harness.StartUpstream(t)
				if strings.HasPrefix(name, "another") {
					u.Trusts("a handler changes the request")
				}
				g := harness.NewGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Assert: "EdDSA", Proxy: c.proxy})
				g.Site.Routes = "route {\ncard_auth {\n" + g.AssertBlock() + "}\n" + c.between + "\n" + g.Site.ToIssuer() + "}\n"
				g.Start()
				key := g.NewKey(nil)
				r := key.Post()
				answer := g.Send(t, r)
				if c.refused && (terminal == harness.ReverseProxy || strings.Contains(c.between, "set other")) {
					harness.WantRefused(t, answer, http.StatusInternalServerError, "INTERNAL_ERROR")
					u.None(t)
					g.Logged("default.log", "assert")
					return
				}
				harness.WantAccepted(t, answer)
				asserted(t, g, r, u.One(t))
			})
		}
	}
}

// TestAssertionInDryRun checks that a request which a dry run lets through
// without proof carries no assertion.
func TestAssertionInDryRun(t *testing.T) {
	harness.EachTerminal(t, func(t *testing.T, terminal string) {
		u := harness.StartUpstream(t)
		g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Assert: "EdDSA", Auth: "dry_run"})
		u.Trusts("the gateway is in dry run")
		key := g.NewKey(nil)
		harness.WantAccepted(t, g.Send(t, key.Post().Forge().Add("X-Gateway-Assertion", "evil")))
		if got := u.One(t); len(got.Values("X-Gateway-Assertion")) != 0 {
			t.Errorf("the upstream received\n%s", got.Raw())
		}
		r := key.Post()
		harness.WantAccepted(t, g.Send(t, r))
		asserted(t, g, r, u.One(t))
	})
}

// TestAssertionKeys rotates the key over reloads: a new key is published before it
// signs, and the old one until its last assertion has ended.
func TestAssertionKeys(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Assert: "EdDSA", Extra: "handle /jwks {\ncard_jwks\n}"})
	key := g.NewKey(nil)
	published := func() (kids []string, header http.Header) {
		answer := g.SendRaw(t, "GET /jwks HTTP/1.1\r\nHost: gw.example\r\nConnection: close\r\n\r\n")
		var set struct{ Keys []map[string]string }
		if err := json.Unmarshal([]byte(answer.Body), &set); err != nil {
			t.Fatalf("%v: %v", answer, err)
		}
		for _, k := range set.Keys {
			if k["d"] != "" || k["kty"] != "OKP" || k["crv"] != "Ed25519" || k["alg"] != "EdDSA" || k["use"] != "sig" {
				t.Errorf("a key of the set is %v", k)
			}
			kids = append(kids, k["kid"])
		}
		if _, shown := g.Admin("GET", "/card-gateway/jwks", "", ""); strings.TrimSpace(shown) != strings.TrimSpace(answer.Body) {
			t.Errorf("the admin API shows %s, the handler %s", shown, answer.Body)
		}
		return kids, answer.Header
	}
	signedWith := func() string {
		r := key.Get()
		harness.WantAccepted(t, g.Send(t, r))
		got := u.One(t)
		asserted(t, g, r, got)
		return got.KeyOfAssertion()
	}
	old, next := g.ReadFile("assert.key"), harness.NewMasterKey()
	first, header := published()
	if len(first) != 1 || signedWith() != first[0] {
		t.Fatalf("published %q", first)
	}
	tag := header.Get("ETag")
	if header.Get("Content-Type") != "application/jwk-set+json" || header.Get("Cache-Control") != "public, max-age=300" || tag == "" {
		t.Errorf("headers %v", header)
	}
	for condition, want := range map[string]int{
		tag: http.StatusNotModified, "W/" + tag: http.StatusNotModified, `"a", W/"b",` + tag: http.StatusNotModified, "*": http.StatusNotModified,
		`"a"`: http.StatusOK, tag[1 : len(tag)-1]: http.StatusOK,
	} {
		answer := g.SendRaw(t, "GET /jwks HTTP/1.1\r\nHost: gw.example\r\nIf-None-Match: "+condition+"\r\nConnection: close\r\n\r\n")
		if answer.Status != want || (answer.Body == "") != (want == http.StatusNotModified) {
			t.Errorf("%s: %v", condition, answer)
		}
	}
	if answer := g.SendRaw(t, "POST /jwks HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); answer.Status != http.StatusMethodNotAllowed {
		t.Errorf("%v", answer)
	}
	for i, step := range []struct {
		keys  string
		count int
		signs bool // the new one
		tells bool // caches have to take the set anew
	}{{old + next, 2, false, true}, {next + old, 2, true, false}, {next, 1, true, true}} {
		g.WriteFile("assert.key", step.keys)
		site := g.Site
		site.Global = fmt.Sprintf("lock_after %d", 60+i) // Caddy does not load the same configuration again
		g.Reload(site)
		kids, header := published()
		if before := tag; len(kids) != step.count || before != header.Get("ETag") != step.tells {
			t.Errorf("published %q with the tag %s, before %s", kids, header.Get("ETag"), before)
		}
		tag = header.Get("ETag")
		if with := signedWith(); with == first[0] == step.signs || !slices.Contains(kids, with) {
			t.Errorf("signed with %s, published %q", with, kids)
		}
	}
}
