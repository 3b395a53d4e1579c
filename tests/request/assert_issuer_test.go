package request

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestIssuerThatVerifies has a sandbox issuer that asks for assertions. It answers
// what the gateway has forwarded, also after the key was rotated, and nobody who
// reaches it without the gateway.
func TestIssuerThatVerifies(t *testing.T) {
	harness.EachTerminal(t, func(t *testing.T, terminal string) {
		issuer := harness.FreeAddress(t)
		g := harness.NewGateway(t, harness.Site{Upstream: issuer, Terminal: terminal, Assert: "EdDSA"})
		host, port, err := net.SplitHostPort(issuer)
		if err != nil {
			t.Fatal(err)
		}
		g.Site.Extra = "handle /jwks {\ncard_jwks\n}"
		g.Site.Sites = fmt.Sprintf("http://:%s {\nbind %s\ncard_sandbox %s {\nassertion http://%s/jwks %s\n}\n}\n", port, host, "verifies-"+port, g.Addr, harness.Audience)
		g.Start()
		key := g.NewKey(nil)
		products := func() *harness.Request { return key.Request("GET", "/api/v1/products?limit=1", "") }
		for range 2 {
			answer := g.Send(t, products())
			harness.WantAccepted(t, answer)
			if !strings.Contains(answer.Body, `"data"`) {
				t.Errorf("the issuer answers %s", answer.Body)
			}
		}

		direct := &harness.Gateway{T: t, Addr: issuer}
		bare := &harness.Request{Method: "GET", Target: "/api/v1/products"}
		for _, name := range []string{"Key-Id", "Tenant", "Scopes", "Operation"} {
			bare.Add("X-Gateway-"+name, "acme")
		}
		bare.Add("X-Request-Id", "r1")
		for _, assertion := range []string{"", "e30.e30.e30", "a.b.c", "a"} {
			r := *bare
			if assertion != "" {
				r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], "X-Gateway-Assertion: "+assertion)
			}
			if answer := direct.Send(t, &r); answer.Status != http.StatusForbidden || !strings.Contains(answer.Body, "BAD_ASSERTION") {
				t.Errorf("directly, with the assertion %q: %v", assertion, answer)
			}
		}

		site := g.Site
		site.Global = "lock_after 60"
		g.WriteFile("assert.key", harness.NewMasterKey())
		g.Reload(site)
		harness.Eventually(t, "the issuer knows the new key", func() bool { return g.Send(t, products()).Status == http.StatusOK })
	})
}
