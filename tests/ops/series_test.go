package ops

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// publishedSite returns a site with all operations of Caddyfile.example, and as many
// issuers.
func publishedSite(t testing.TB, issuers int) harness.Site {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^\s+operation .*\n`).FindAllString(readFile(t, "../../Caddyfile.example"), -1)
	if len(lines) < 20 {
		t.Fatalf("Caddyfile.example has the operations %q", lines)
	}
	addrs := make([]string, issuers)
	for i := range addrs {
		addrs[i] = harness.StartUpstream(t).Addr
	}
	return harness.Site{Upstream: strings.Join(addrs, " "), Global: strings.Join(lines, "")}
}

// scrapeAtTheStart returns what a gateway with a key shows before any request.
func scrapeAtTheStart(t testing.TB, site harness.Site) harness.Samples {
	t.Helper()
	g := harness.StartGateway(t, site)
	g.NewKey(nil)
	harness.Eventually(t, "the keys are counted", func() bool { return len(g.Scrape(t).Of("card_gateway_keys")) > 0 })
	return g.Scrape(t)
}

// TestSeriesAtTheStart bounds what a gateway shows before any request, with a key and
// one issuer, and what each further issuer adds.
func TestSeriesAtTheStart(t *testing.T) {
	t.Parallel()
	const first, further = 800, 20
	for _, issuers := range []int{1, 3} {
		all, by := 0, make(map[string]int)
		for series := range scrapeAtTheStart(t, publishedSite(t, issuers)) {
			if name, _, _ := strings.Cut(series, "{"); strings.HasPrefix(name, "card_gateway_") {
				by[name]++
				all++
			}
		}
		t.Logf("%d issuers: %d series: %v", issuers, all, by)
		if most := first + (issuers-1)*further; all > most {
			t.Errorf("with %d issuers a gateway shows %d series at the start, want at most %d", issuers, all, most)
		}
	}
}

// rated is a selection of which a rule takes the rate: rate and increase lose the first
// count of a series that did not exist before.
var rated = regexp.MustCompile(`(?:rate|increase)\((card_gateway_[a-z_]+)\{([^}]*)\}`)

// ratedValues returns the metrics and labels that rules rate, as in outcome="accepted".
func ratedValues(t testing.TB) (all [][2]string) {
	t.Helper()
	for _, file := range []string{"../../ops/alerts.yml", "../../ops/recording.yml"} {
		for _, found := range rated.FindAllStringSubmatch(readFile(t, file), -1) {
			for _, m := range matcher.FindAllStringSubmatch(found[2], -1) {
				if m[1] == "le" || strings.HasPrefix(m[2], "!") {
					continue
				}
				for value := range strings.SplitSeq(m[3], "|") {
					all = append(all, [2]string{found[1], m[1] + `="` + value + `"`})
				}
			}
		}
	}
	if len(all) < 10 {
		t.Fatalf("the rules rate %q", all)
	}
	return all
}

// TestWhatAlertsRateExistsAtTheStart requires a series for each value that a rule names
// in a rate, of each operation that can have it.
func TestWhatAlertsRateExistsAtTheStart(t *testing.T) {
	t.Parallel()
	start := scrapeAtTheStart(t, publishedSite(t, 1))
	accepted := having(start, "card_gateway_requests_total", `outcome="accepted"`)
	for _, r := range ratedValues(t) {
		metric, label := r[0], r[1]
		shown, want := len(having(start, metric, label)), 1
		if slices.Contains(gatewayMetrics(t)[metric].labels, "operation") {
			want = len(accepted)
		}
		if strings.Contains(metric+label, "upstream_") {
			want -= 4 // the operations of the gateway itself
		}
		if shown < want {
			t.Errorf("rules rate %s{%s}, of which %d series exist at the start, want %d", metric, label, shown, want)
		}
	}
}

// having returns the series of a metric with a label.
func having(samples harness.Samples, metric, label string) (all []string) {
	for series := range samples.Of(metric) {
		if strings.Contains(series, label) {
			all = append(all, series)
		}
	}
	return all
}

// TestReadsAreMeasured: the calls that decide whether a large body is read, and that show
// what is left of limits, are in the figures.
func TestReadsAreMeasured(t *testing.T) {
	t.Parallel()
	g := harness.StartGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	key, large := g.NewKey(nil), strings.Repeat("x", 300<<10)
	harness.WantAccepted(t, g.Send(t, key.Request(http.MethodPost, "/api/v1/cards", `"`+large+`"`)))
	wantGauge(t, g, `card_gateway_store_seconds_count{call="look",result="ok"}`, 1)
	if status, answer := g.Admin(http.MethodGet, "/card-gateway/keys/"+key.ID+"/limits", "", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	wantGauge(t, g, `card_gateway_store_seconds_count{call="levels",result="ok"}`, 1)
}
