package ops

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A prometheus is a real Prometheus with the repository's rules that scrapes a
// gateway.
type prometheus struct {
	t    testing.TB
	addr string
	log  string
}

// startPrometheus starts the Prometheus of the distribution in its own directory
// and waits until it is ready.
func startPrometheus(t testing.TB, target string) *prometheus {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("prometheus is not installed; tests/install-tools.sh installs it (Debian package prometheus)")
	}
	rules, err := filepath.Abs("../../ops")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`global: {scrape_interval: 500ms, evaluation_interval: 500ms}
rule_files: [%[1]q, %[2]q]
scrape_configs:
  - job_name: card-gateway
    static_configs: [{targets: [%[3]q]}]
`, filepath.Join(rules, "recording.yml"), filepath.Join(rules, "alerts.yml"), target)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{t: t, log: filepath.Join(dir, "log")}
	for range 5 {
		p.addr = harness.FreeAddress(t)
		if p.run(path, dir) {
			return p
		}
	}
	t.Fatalf("prometheus did not become ready:\n%s", readFile(t, p.log))
	return nil
}

// run starts the process and reports whether it became ready.
func (p *prometheus) run(path, dir string) bool {
	p.t.Helper()
	log, err := os.Create(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.addr)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-ended
	})
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); {
		if answer, err := http.Get("http://" + p.addr + "/-/ready"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// ask calls the API and decodes the data of its answer.
func (p *prometheus) ask(path string, query url.Values, data any) {
	p.t.Helper()
	answer, err := http.Get("http://" + p.addr + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	var envelope struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&envelope); err != nil || envelope.Status != "success" {
		p.t.Fatalf("asking prometheus %s %v: %v %s", path, query, err, envelope.Error)
	}
	if err := json.Unmarshal(envelope.Data, data); err != nil {
		p.t.Fatal(err)
	}
}

// hasData reports whether the expression has a value that is a number.
func (p *prometheus) hasData(expr string) bool {
	p.t.Helper()
	var result struct {
		Result []struct{ Value [2]any }
	}
	p.ask("query", url.Values{"query": {expr}}, &result)
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
	return harness.StartGateway(t, harness.Site{
		Global: "limit issue_card 600/1m burst 5\nlimit create_customer 6000/1m",
		Routes: "card_rate_limit\ncard_auth\ncard_translate {\nupstream snake_case\n}\ncard_forward " + issuer.Addr,
	})
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
	for deadline := time.Now().Add(harness.Patience); len(waiting) > 0 && time.Now().Before(deadline); {
		sendWatched(t, g, key)
		time.Sleep(500 * time.Millisecond)
		var still []expression
		for _, e := range waiting {
			if !p.hasData(e.text) {
				still = append(still, e)
			}
		}
		waiting = still
	}
	for _, e := range waiting {
		t.Errorf("%s: no data for %s", e.place, e.text)
	}
	p.wantHealthyRules(t)
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

func (p *prometheus) wantHealthyRules(t *testing.T) {
	t.Helper()
	var loaded struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	p.ask("rules", nil, &loaded)
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
