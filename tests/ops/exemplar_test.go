package ops

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// Traces of a client: one that is sampled, and one that is not.
const (
	sampledTrace   = "4bf92f3577b34da6a3ce929d0e0e4736"
	unsampledTrace = "0af7651916cd43dd8448eb211c80319c"
)

// tracedGateway returns a gateway whose spans the collector gets.
func tracedGateway(t testing.TB, c *collector, s harness.Site) *harness.Gateway {
	t.Helper()
	s.Extra = tracing
	g := harness.NewGateway(t, s)
	g.Env = c.environment()
	g.Start()
	return g
}

// sendTraced sends a GET of a sampled trace, and a POST of one that is not.
func sendTraced(t testing.TB, g *harness.Gateway, key harness.Credentials) {
	t.Helper()
	harness.WantAccepted(t, g.Send(t, key.Get().Add("traceparent", "00-"+sampledTrace+"-00f067aa0ba902b7-01")))
	harness.WantAccepted(t, g.Send(t, key.Post().Add("traceparent", "00-"+unsampledTrace+"-00f067aa0ba902b7-00")))
}

var exemplarLabels = regexp.MustCompile(`^\{(?:span_id="[0-9a-f]{16}",trace_id="([0-9a-f]{32})"|trace_id="([0-9a-f]{32})",span_id="[0-9a-f]{16}")\} `)

// exemplars returns the trace ids of the exemplars by metric and operation, from a
// scrape that accepts the given format.
func exemplars(t testing.TB, g *harness.Gateway, accept string) map[string]string {
	t.Helper()
	r := (&harness.Request{Method: http.MethodGet, Target: "/metrics"}).Set("Accept", accept)
	found := make(map[string]string)
	for line := range strings.Lines(g.Send(t, r).Body) {
		series, exemplar, has := strings.Cut(line, " # ")
		if !has || !strings.HasPrefix(line, "card_gateway_") {
			continue
		}
		ids := exemplarLabels.FindStringSubmatch(exemplar)
		if ids == nil {
			t.Fatalf("an exemplar has other labels than the trace's: %s", line)
		}
		metric, labels, _ := strings.Cut(series, "_bucket{")
		_, operation, _ := strings.Cut(labels, `operation="`)
		operation, _, _ = strings.Cut(operation, `"`)
		found[metric+" "+operation] = ids[1] + ids[2]
	}
	return found
}

// TestExemplarsNameSampledTraces checks that a scrape in OpenMetrics names the trace
// of a sampled request, and of no other.
func TestExemplarsNameSampledTraces(t *testing.T) { harness.EachTerminal(t, testExemplars) }

func testExemplars(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := tracedGateway(t, startCollector(t), harness.Site{Upstream: u.Addr, Terminal: terminal})
	sendTraced(t, g, g.NewKey(nil))
	got := exemplars(t, g, "application/openmetrics-text; version=1.0.0")
	for _, metric := range []string{"card_gateway_overhead_seconds", "card_gateway_upstream_seconds"} {
		if trace := got[metric+" get_card"]; trace != sampledTrace {
			t.Errorf("the exemplar of %s has the trace %q, want %q", metric, trace, sampledTrace)
		}
		delete(got, metric+" get_card")
	}
	if len(got) > 0 {
		t.Errorf("there are exemplars without a sampled request: %v", got)
	}
	if got := exemplars(t, g, "text/plain"); len(got) > 0 {
		t.Errorf("a scrape in text has exemplars: %v", got)
	}
}

// TestPrometheusStoresExemplars has a real Prometheus store them, from a scrape in
// OpenMetrics and from one in protobuf.
func TestPrometheusStoresExemplars(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := tracedGateway(t, startCollector(t), harness.Site{Upstream: u.Addr})
	sendTraced(t, g, g.NewKey(nil))
	text := "scrape_configs: [{job_name: card-gateway, static_configs: [{targets: ['" + g.Addr + "']}]}]\n"
	for format, p := range map[string]*harness.Prometheus{
		"OpenMetrics": harness.StartPrometheus(t, harness.PrometheusConfig(500*time.Millisecond)+text, "--enable-feature=exemplar-storage"),
		"protobuf":    startNativePrometheus(t, g.Addr),
	} {
		harness.Eventually(t, "there is an exemplar from a scrape in "+format, func() bool {
			var stored []struct {
				Exemplars []struct{ Labels map[string]string }
			}
			now := time.Now()
			p.Ask("query_exemplars", url.Values{
				"query": {`{__name__=~"card_gateway_(overhead|upstream)_seconds.*"}`},
				"start": {now.Add(-time.Hour).Format(time.RFC3339)}, "end": {now.Add(time.Hour).Format(time.RFC3339)},
			}, &stored)
			series := 0
			for _, s := range stored {
				for _, e := range s.Exemplars {
					if e.Labels["trace_id"] != sampledTrace {
						t.Fatalf("an exemplar of another trace: %v", e.Labels)
					}
				}
				series += min(len(s.Exemplars), 1)
			}
			return series >= 2 // of both metrics
		})
	}
}
