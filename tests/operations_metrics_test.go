package tests

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// samples are the values of a scrape by series, as in
// `card_gateway_requests_total{operation="other",outcome="accepted"}`.
type samples map[string]float64

// scrape reads the metrics of the site.
func (g *gateway) scrape(t testing.TB) samples {
	t.Helper()
	answer, _ := g.insist(t, &request{method: http.MethodGet, target: "/metrics"})
	if answer == nil || answer.status != http.StatusOK {
		t.Fatalf("/metrics is answered %s", answer)
	}
	all := make(samples)
	for line := range strings.Lines(answer.body) {
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

// of returns the samples of one metric.
func (s samples) of(metric string) samples {
	chosen := make(samples)
	for series, value := range s {
		if name, _, _ := strings.Cut(series, "{"); name == metric {
			chosen[series] = value
		}
	}
	return chosen
}

// since returns what has changed, and by how much.
func (s samples) since(before samples) samples {
	changed := make(samples)
	for series, value := range s {
		if value != before[series] {
			changed[series] = value - before[series]
		}
	}
	return changed
}

func (s samples) sum() (total float64) {
	for _, value := range s {
		total += value
	}
	return total
}

func (s samples) series() []string { return slices.Sorted(maps.Keys(s)) }

// requestSeries is the counter of requests of an operation with an outcome.
func requestSeries(operation, outcome string) string {
	return `card_gateway_requests_total{operation="` + operation + `",outcome="` + outcome + `"}`
}

// wantCounted waits until the requests since a scrape are counted, and fails
// the test unless they are counted under these series and no other.
func (g *gateway) wantCounted(t testing.TB, before samples, want samples) {
	t.Helper()
	var got samples
	eventually(t, "the requests were counted", func() bool {
		got = g.scrape(t).of("card_gateway_requests_total").since(before.of("card_gateway_requests_total"))
		return got.sum() >= want.sum()
	})
	if !maps.Equal(got, want) {
		t.Errorf("counted are %v, want %v", got, want)
	}
}
