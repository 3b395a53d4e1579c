package ops

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// startPrometheus starts a Prometheus with the repository's rules that scrapes a
// gateway.
func startPrometheus(t testing.TB, target string) *harness.Prometheus {
	t.Helper()
	rules, err := filepath.Abs("../../ops")
	if err != nil {
		t.Fatal(err)
	}
	config := harness.PrometheusConfig(500*time.Millisecond, filepath.Join(rules, "recording.yml"), filepath.Join(rules, "alerts.yml"))
	return harness.StartPrometheus(t, config+fmt.Sprintf(`scrape_configs:
  - job_name: card-gateway
    static_configs: [{targets: [%q]}]
`, target))
}

// hasData reports whether the expression has a value that is a number.
func hasData(p *harness.Prometheus, expr string) bool {
	var result struct {
		Result []struct{ Value [2]any }
	}
	p.Ask("query", url.Values{"query": {expr}}, &result)
	for _, sample := range result.Result {
		text, _ := sample.Value[1].(string)
		if value, err := strconv.ParseFloat(text, 64); err == nil && value == value {
			return true
		}
	}
	return false
}

const watchedCustomer = `{"type":"individual","firstName":"Zoë","lastName":"Ng","email":"zoe.ng@example.com","phoneCode":"+44",` +
	`"phoneNumber":"7700900123","country":"GB","dateOfBirth":"1990-04-12","gender":"female"}`

// watchedGateway returns a gateway with data for every panel.
func watchedGateway(t testing.TB) *harness.Gateway {
	t.Helper()
	issuer := harness.StartUpstream(t)
	issuer.Does(func(r *harness.Received) harness.Reply {
		switch {
		case strings.Contains(r.Line, "/balance"):
			return harness.Reply{} // closes the connection
		case strings.Contains(strings.ToLower(r.Line), "/customers"):
			return harness.Answer(201, `{"data":{"id":"u1","type":"individual","first_name":"Zoë","email":"zoe.ng@example.com",`+
				`"date_of_birth":"1990-04-12T00:00:00Z"},"request_id":"r1","timestamp":"2026-01-01T00:00:00Z"}`, "Content-Type: application/json")
		default:
			return harness.Answer(200, `{"ok":true}`, "Content-Type: application/json")
		}
	})
	g := harness.NewGateway(t, harness.Site{
		Global: "limit issue_card 600/1m burst 5\nlimit create_customer 6000/1m",
		Routes: "card_rate_limit\ncard_auth\ncard_translate {\nupstream snake_case\n}\ncard_forward " + issuer.Addr,
	})
	g.Site.Sites, _ = fileSite(t, g, "watched", time.Now())
	g.Start()
	return g
}

// sendWatched sends a round of traffic of every kind.
func sendWatched(t testing.TB, g *harness.Gateway, key harness.Credentials) {
	t.Helper()
	unknown := harness.Credentials{ID: "ck_live_" + strings.Repeat("a", 32), Secret: key.Secret}
	customer := key.Request(http.MethodPost, "/api/v1/Customers", watchedCustomer).Set("Content-Type", "application/json")
	incomplete := key.Request(http.MethodPost, "/api/v1/Customers", `{"firstName":"Zoë"}`).Set("Content-Type", "application/json")
	forged := key.Get().Forge()
	for _, sent := range []struct {
		request *harness.Request
		status  int
	}{
		{unknown.Get(), 401}, {forged, 401}, {customer, 201}, {incomplete, 422}, {key.Get(), 200},
		{key.Request(http.MethodGet, "/api/v1/cards/c1/balance", ""), 502},
	} {
		if r := g.Send(t, sent.request); r.Status != sent.status {
			t.Fatalf("%s %s: %s, want %d", sent.request.Method, sent.request.Target, r, sent.status)
		}
	}
	for range 8 { // more than the bucket of issue_card holds
		g.Send(t, key.Post())
	}
}

// TestPrometheusReadsEverything has a real Prometheus scrape a gateway under
// traffic: every query of the dashboard returns numbers, every rule is healthy,
// and every series of an alert is present.
func TestPrometheusReadsEverything(t *testing.T) {
	t.Parallel()
	g := watchedGateway(t)
	key := g.NewKey(nil)
	p := startPrometheus(t, g.Addr)

	waiting := dashboardQueries(t)
	for _, r := range append(rules(t, "../../ops/alerts.yml"), rules(t, "../../ops/recording.yml")...) {
		for _, m := range selection.FindAllStringSubmatch(r.Expr, -1) {
			if strings.HasSuffix(m[1], ":usual_share") || strings.Contains(m[1], ":last") {
				continue // the first takes half an hour; the others exist only while something fails
			}
			waiting = append(waiting, expression{r.Alert + r.Record, m[1] + m[2]})
		}
	}
	// Rules of one group are evaluated each half minute, first at a moment that
	// Prometheus chooses.
	for deadline := time.Now().Add(3 * harness.Patience); len(waiting) > 0 && time.Now().Before(deadline); {
		sendWatched(t, g, key)
		time.Sleep(500 * time.Millisecond)
		var still []expression
		for _, e := range waiting {
			if !hasData(p, e.text) {
				still = append(still, e)
			}
		}
		waiting = still
	}
	for _, e := range waiting {
		t.Errorf("%s: no data for %s", e.place, e.text)
	}
	wantHealthyRules(t, p)
}

func dashboardQueries(t testing.TB) []expression {
	t.Helper()
	var all []expression
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			all = append(all, expression{"panel " + panel.Title, concrete(target.Expr)})
		}
	}
	return all
}

func wantHealthyRules(t *testing.T, p *harness.Prometheus) {
	t.Helper()
	var loaded struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	p.Ask("rules", nil, &loaded)
	count := 0
	for _, group := range loaded.Groups {
		for _, r := range group.Rules {
			count++
			if r.Health != "ok" {
				t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if want := len(rules(t, "../../ops/alerts.yml")) + len(rules(t, "../../ops/recording.yml")); count != want {
		t.Errorf("prometheus has loaded %d rules, want %d", count, want)
	}
}
