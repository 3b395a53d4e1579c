package ops

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// startNativePrometheus starts a Prometheus that asks for protobuf, and so for
// native histograms and exemplars.
func startNativePrometheus(t testing.TB, target string) *harness.Prometheus {
	t.Helper()
	config := harness.PrometheusConfig(500*time.Millisecond) + fmt.Sprintf(`scrape_configs:
  - job_name: card-gateway
    static_configs: [{targets: [%q]}]
`, target)
	return harness.StartPrometheus(t, config, "--enable-feature=native-histograms,exemplar-storage")
}

// value returns the value of an expression with one result; false: it has none.
func value(p *harness.Prometheus, expr string) (float64, bool) {
	var result struct {
		Result []struct{ Value [2]any }
	}
	p.Ask("query", url.Values{"query": {expr}}, &result)
	if len(result.Result) != 1 {
		return 0, false
	}
	text, _ := result.Result[0].Value[1].(string)
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil
}

// gatewayHistograms returns the names of the gateway's histograms.
func gatewayHistograms(t testing.TB) (names []string) {
	t.Helper()
	for name, m := range gatewayMetrics(t) {
		if m.histogram {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// counted returns the number of observations in the classic buckets of a metric,
// and the bounds of the buckets.
func counted(s harness.Samples, metric string) (sum float64, bounds []string) {
	for _, value := range s.Of(metric + "_count") {
		sum += value
	}
	for series := range s.Of(metric + "_bucket") {
		_, bound, _ := strings.Cut(series, `le="`)
		if bound, _, _ = strings.Cut(bound, `"`); bound != "+Inf" && !slices.Contains(bounds, bound) {
			bounds = append(bounds, bound)
		}
	}
	return sum, bounds
}

// TestHistogramsAreClassicAndNative has a real Prometheus read the native
// histograms. A scrape in text shows the same observations in the classic buckets.
func TestHistogramsAreClassicAndNative(t *testing.T) {
	t.Parallel()
	g := watchedGateway(t)
	key := g.NewKey(nil)
	sendWatched(t, g, key)
	p := startNativePrometheus(t, g.Addr)
	metrics := gatewayMetrics(t)
	for _, name := range gatewayHistograms(t) {
		classic, bounds := counted(g.Scrape(t), name)
		if len(bounds) != len(metrics[name].bounds) {
			t.Errorf("a scrape in text shows %s with the bounds %v, want %v", name, bounds, metrics[name].bounds)
		}
		if classic == 0 {
			t.Errorf("%s has counted nothing, so that nothing is proven", name)
		}
		// The store is also called without requests.
		harness.Eventually(t, fmt.Sprintf("the native %s has %v observations or more", name, classic), func() bool {
			native, found := value(p, "histogram_count(sum("+name+"))")
			return found && native >= classic
		})
		if p99, found := value(p, "histogram_quantile(0.99, sum("+name+"))"); !found || p99 != p99 {
			t.Errorf("the native %s has the 99th percentile %v", name, p99)
		}
	}
}
