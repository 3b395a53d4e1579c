package ops

import (
	"net/http"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestOddStatusOfAnIssuerIsAnError has an issuer answer with a status that no one has
// defined, also to an operation whose answers are translated.
func TestOddStatusOfAnIssuerIsAnError(t *testing.T) { harness.EachTerminal(t, testOddStatus) }

func testOddStatus(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	s := harness.Site{Upstream: u.Addr, Terminal: terminal, Global: harness.CustomerOperations}
	s.Routes = "card_rate_limit\ncard_auth\ncard_translate\n" + s.ToIssuer()
	g := harness.StartGateway(t, s)
	key := g.NewKey(harness.Fields{"customer_variant": "B"})
	for _, status := range []int{799, 999} {
		u.Replies(harness.Answer(status, `{}`, "Content-Type: application/json"))
		for _, target := range []string{"/api/v1/customers/u1", "/api/v1/cards/c1"} {
			if r := g.Send(t, key.Request(http.MethodGet, target, "")); r.Status != http.StatusBadGateway {
				t.Errorf("%d of %s is answered %s, want 502", status, target, r)
			}
		}
	}
	got := g.Scrape(t).Of("card_gateway_upstream_responses_total")
	for _, operation := range []string{"get_customer", "get_card"} {
		if n := got[`card_gateway_upstream_responses_total{class="error",operation="`+operation+`"}`]; n != 2 {
			t.Errorf("%s has %v answers of the class error, want 2", operation, n)
		}
	}
}
