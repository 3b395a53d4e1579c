package harness

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Samples are the values of a scrape by series, as in
// `card_gateway_requests_total{operation="other",outcome="accepted"}`.
type Samples map[string]float64

// Scrape reads the metrics of the site.
func (g *Gateway) Scrape(t testing.TB) Samples {
	t.Helper()
	answer, _ := g.Insist(t, &Request{Method: http.MethodGet, Target: "/metrics"})
	if answer == nil || answer.Status != http.StatusOK {
		t.Fatalf("/metrics is answered %s", answer)
	}
	all := make(Samples)
	for line := range strings.Lines(answer.Body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, text, ok := cutLast(strings.TrimSpace(line), " ")
		value, err := strconv.ParseFloat(text, 64)
		if _, again := all[name]; !ok || err != nil || again {
			t.Fatalf("/metrics has the line %q", line)
		}
		all[name] = value
	}
	return all
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// Of returns the samples of one metric.
func (s Samples) Of(metric string) Samples {
	chosen := make(Samples)
	for series, value := range s {
		if name, _, _ := strings.Cut(series, "{"); name == metric {
			chosen[series] = value
		}
	}
	return chosen
}

// Since returns the samples that have changed, with the difference.
func (s Samples) Since(before Samples) Samples {
	changed := make(Samples)
	for series, value := range s {
		if value != before[series] {
			changed[series] = value - before[series]
		}
	}
	return changed
}

// Sum returns the sum of all values.
func (s Samples) Sum() (total float64) {
	for _, value := range s {
		total += value
	}
	return total
}

// Series returns the names with their labels, in order.
func (s Samples) Series() []string { return slices.Sorted(maps.Keys(s)) }

// RequestSeries returns the series that counts the requests of an operation
// with an outcome.
func RequestSeries(operation, outcome string) string {
	return `card_gateway_requests_total{operation="` + operation + `",outcome="` + outcome + `"}`
}

// WantCounted waits until the requests since the scrape before are counted. It
// fails the test unless they are counted exactly as want.
func (g *Gateway) WantCounted(t testing.TB, before Samples, want Samples) {
	t.Helper()
	var got Samples
	Eventually(t, "the requests were counted", func() bool {
		got = g.Scrape(t).Of("card_gateway_requests_total").Since(before.Of("card_gateway_requests_total"))
		return got.Sum() >= want.Sum()
	})
	if !maps.Equal(got, want) {
		t.Errorf("counted are %v, want %v", got, want)
	}
}
