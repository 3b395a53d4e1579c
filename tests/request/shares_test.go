package request

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// tenantKeys returns n keys of one tenant.
func tenantKeys(g *harness.Gateway, tenant string, n int) []harness.Credentials {
	keys := make([]harness.Credentials, n)
	for i := range keys {
		keys[i] = g.NewKey(harness.Fields{"tenant": tenant, "customer_variant": "C"})
	}
	return keys
}

// TestTenantTakesNoBodiesOfOthers lets nine keys of a tenant send bodies from five
// addresses that never end. Another tenant gets all of its requests served, also from
// one of these addresses.
func TestTenantTakesNoBodiesOfOthers(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "body_budget 8MiB"})
	body := strings.Repeat("x", 960<<10)
	for round := range 3 {
		for i, key := range tenantKeys(g, "greedy", 9) {
			r := key.Request(http.MethodPost, "/api/v1/cards", body[:len(body)>>round]).From(fmt.Sprintf("127.0.0.%d", 2+i%5))
			w, err := g.Dial(r.Source)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close() })
			_, _ = w.Write([]byte(r.Head() + r.Body[1:]))
		}
	}
	harness.Eventually(t, "the tenant holds what it may", func() bool { return g.Scrape(t)["card_gateway_body_bytes"] > 5<<20 })
	other := tenantKeys(g, "other", 1)[0]
	for i := range 20 {
		r := other.Request(http.MethodPost, "/api/v1/cards", body).From(fmt.Sprintf("127.0.0.%d", 2+i%6))
		harness.WantAccepted(t, g.Send(t, r))
	}
	if n := len(u.Took()); n != 20 {
		t.Errorf("%d requests have reached the issuer, want 20", n)
	}
}

// TestNothingIsExecutedAndRefused lets six keys of a tenant leave large signed answers
// unread. The creates of another tenant are all executed and answered, and what the
// tenant itself asks for beyond its share reaches no issuer.
func TestNothingIsExecutedAndRefused(t *testing.T) {
	harness.EachTerminal(t, func(t *testing.T, terminal string) {
		u := harness.StartUpstream(t)
		site := harness.Site{Upstream: u.Addr, Terminal: terminal, Global: harness.CustomerOperations + "\nsign_responses\nanswer_budget 24MiB"}
		site.Routes = "card_auth\ncard_translate {\nupstream camelCase\n}\n" + site.ToIssuer()
		g := harness.StartGateway(t, site)
		large := harness.Answer(200, strings.Repeat("x", 6<<20))
		list := harness.Answer(200, `{"data":[{"firstName":"`+strings.Repeat("Z", 300<<10)+`"}]}`, "Content-Type: application/json")
		u.Does(func(r *harness.Received) harness.Reply {
			switch {
			case strings.HasPrefix(r.Line, "GET /api/v1/cards/c1 "):
				return large
			case strings.HasPrefix(r.Line, "GET /api/v1/customers "):
				return list
			}
			if strings.HasPrefix(r.Line, "GET") {
				return harness.Answer(200, "{}")
			}
			return harness.Answer(201, `{"firstName":"Z","countryIsoTwo":"DE"}`, "Content-Type: application/json")
		})
		greedy := tenantKeys(g, "greedy", 6)
		sent, served, refused := 0, 0, new(harness.Response)
		harness.Eventually(t, "the tenant holds what it may", func() bool {
			r := greedy[sent%6].Get().From(fmt.Sprintf("127.0.0.%d", 2+sent%6))
			w, err := g.Dial(r.Source)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close() })
			w.WriteText(t, r.Head()) // and read nothing
			sent++
			refused = g.Send(t, greedy[sent%6].Request(http.MethodGet, "/api/v1/cards/probe", ""))
			served++
			return refused.Status != http.StatusOK || refused.Unsigned() == nil
		})
		harness.WantRefused(t, refused, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
		if refused.Header.Get("X-Gateway-Forwarded") != "no" || refused.Header.Get("Retry-After") == "" || !strings.Contains(refused.Body, `"forwarded":false`) {
			t.Errorf("%v has %v", refused, refused.Header)
		}
		other := tenantKeys(g, "other", 1)[0]
		for i := range 13 {
			r := other.JSON(http.MethodPost, "/api/v1/Customers", fmt.Sprintf(dialects[2].customer, "z@example.com"))
			if i == 12 { // what is larger than was reserved grows
				r = other.Request(http.MethodGet, "/api/v1/customers", "")
			}
			answer := g.Send(t, r)
			if err := answer.SignedFor(r, other.Secret); answer.Status/100 != 2 || err != nil {
				t.Errorf("%.200v, %v", answer, err)
			}
		}
		count := make(map[string]int)
		for _, r := range u.Took() {
			count[strings.TrimSuffix(r.Line, " HTTP/1.1")]++
		}
		if count["POST /api/v1/Customers"] != 12 || count["GET /api/v1/cards/probe"] != served-1 {
			t.Errorf("the issuer has seen %v, want 12 creates and %d probes", count, served-1)
		}
	})
}

// TestTenantTakesNoConnectionsOfOthers lets the requests of a tenant wait for the
// issuer on as many connections as there are. Those of another one are served.
func TestTenantTakesNoConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Proxy: "max_connections 8\ndial_timeout 30s"})
	served := make(chan struct{})
	u.Does(func(r *harness.Received) harness.Reply {
		if strings.HasPrefix(r.Line, "GET") {
			return harness.Reply{Raw: harness.Answer(200, "{}").Raw, Wait: served}
		}
		return harness.Answer(201, "{}")
	})
	greedy := tenantKeys(g, "greedy", 3)
	for i := range 20 {
		g.Connect(t).WriteText(t, greedy[i%3].Get().Head())
	}
	harness.Eventually(t, "the tenant has what it may", func() bool { conns, _ := u.Traffic(); return conns >= 7 })
	var all sync.WaitGroup
	for _, key := range tenantKeys(g, "other", 2) {
		all.Go(func() {
			for range 10 {
				if answer, err := g.Try(key.Post()); err != nil || answer.Status != http.StatusCreated {
					t.Errorf("%v, %v", answer, err)
				}
			}
		})
	}
	all.Wait()
	close(served)
}
