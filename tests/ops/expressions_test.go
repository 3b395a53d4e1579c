package ops

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

var (
	// A metric or a recorded series with its selection, if it has one.
	selection = regexp.MustCompile(`\b((?:[a-z_]+:)?card_gateway_[a-z_]+(?::[a-z0-9_]+)?)(\{(?:[^}"]|"[^"]*")*\})?`)
	matcher   = regexp.MustCompile(`([a-zA-Z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping  = regexp.MustCompile(`\b(?:by|on|ignoring|without|group_left)\s*\(([^)]*)\)`)
)

// An inventory holds the metrics and labels that expressions may use.
type inventory struct {
	metrics  map[string]metric
	sets     map[string][]string
	recorded map[string]bool
}

func newInventory(t testing.TB) *inventory {
	inv := &inventory{metrics: gatewayMetrics(t), sets: closedSets(t), recorded: make(map[string]bool)}
	for _, r := range rules(t, "../../ops/recording.yml") {
		inv.recorded[r.Record] = true
	}
	return inv
}

// labelsOf returns the labels of a series, without those of the scrape, or false.
// Those of a recorded series are in its name.
func (inv *inventory) labelsOf(name string) ([]string, bool) {
	if level, _, recorded := strings.Cut(name, ":"); recorded {
		return strings.Split(level, "_"), inv.recorded[name]
	}
	if m, ok := inv.metrics[name]; ok {
		return m.labels, !m.histogram
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if m := inv.metrics[strings.TrimSuffix(name, suffix)]; m.histogram {
			if suffix == "_bucket" {
				return append([]string{"le"}, m.labels...), true
			}
			return m.labels, true
		}
	}
	return nil, false
}

// check checks every name, label and value in an expression.
func (inv *inventory) check(t *testing.T, e expression) {
	t.Helper()
	known := []string{"job", "instance"}
	if strings.Contains(e.text, "ALERTS{") { // Prometheus' own
		known = append(known, "alertname", "severity")
	}
	for _, m := range selection.FindAllStringSubmatch(e.text, -1) {
		labels, ok := inv.labelsOf(m[1])
		if !ok {
			t.Errorf("%s names %s, which does not exist", e.place, m[1])
			continue
		}
		known = append(known, labels...)
		for _, match := range matcher.FindAllStringSubmatch(m[2], -1) {
			label, value := match[1], strings.ReplaceAll(match[3], `\\`, `\`)
			if !slices.Contains(labels, label) && label != "job" && label != "instance" {
				t.Errorf("%s: %s has no label %s", e.place, m[1], label)
			} else if problem := inv.checkValue(m[1], label, match[2], value); problem != "" {
				t.Errorf("%s: %s: %s", e.place, m[0], problem)
			}
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(e.text, -1) {
		for label := range strings.FieldsFuncSeq(m[1], func(r rune) bool { return r == ',' || r == ' ' }) {
			if !slices.Contains(known, label) {
				t.Errorf("%s: no metric in it has the label %s", e.place, label)
			}
		}
	}
}

func (inv *inventory) checkValue(name, label, operator, value string) string {
	values := inv.sets[label]
	if label == "le" {
		return inv.checkBound(name, operator, value)
	}
	if values == nil {
		return ""
	}
	pattern := regexp.QuoteMeta(value)
	if strings.HasSuffix(operator, "~") {
		pattern = value
	}
	for alternative := range strings.SplitSeq(pattern, "|") {
		re, err := regexp.Compile("^(?:" + alternative + ")$")
		if err != nil || !slices.ContainsFunc(values, re.MatchString) {
			return alternative + " is no value of " + label
		}
	}
	return ""
}

// checkBound requires a bound of the histogram, in both forms of a scrape: whole
// numbers as 30 and as 30.0.
func (inv *inventory) checkBound(name, operator, value string) string {
	pattern := regexp.QuoteMeta(value)
	if operator == "=~" {
		pattern = value
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return err.Error()
	}
	for _, written := range inv.metrics[strings.TrimSuffix(name, "_bucket")].bounds {
		bound, _ := strconv.ParseFloat(written, 64)
		plain := strconv.FormatFloat(bound, 'g', -1, 64)
		open := plain
		if !strings.ContainsAny(plain, ".e") {
			open += ".0"
		}
		if re.MatchString(plain) && re.MatchString(open) {
			return ""
		}
	}
	return value + " is no bound of it, or not in both ways in which scrapes write it"
}

// TestExpressionsSpeakOfWhatExists checks that rules, their tests, the dashboard
// and the guides use only existing metrics and labels.
func TestExpressionsSpeakOfWhatExists(t *testing.T) {
	t.Parallel()
	inv := newInventory(t)
	all := shownExpressions(t)
	for _, file := range []string{"../../ops/alerts.yml", "../../ops/recording.yml"} {
		for _, r := range rules(t, file) {
			all = append(all, expression{filepath.Base(file) + ": " + r.Alert + r.Record, r.Expr})
		}
	}
	for _, e := range all {
		inv.check(t, e)
	}
}

// TestMetricsNamedInPagesExist also checks metrics that are named in text.
func TestMetricsNamedInPagesExist(t *testing.T) {
	t.Parallel()
	inv := newInventory(t)
	name := regexp.MustCompile(`\bcard_gateway_(?:[a-z]+_)*(?:total|seconds|up|keys|expiring|bucket|count|sum)\b`)
	for _, p := range harness.Pages(t) {
		for _, found := range name.FindAllString(p.Text, -1) {
			if _, ok := inv.labelsOf(found); !ok && !inv.metrics[found].histogram {
				t.Errorf("%s names the metric %s, which does not exist", p.Path, found)
			}
		}
	}
}

// TestCheckOfExpressionsFindsMistakes tests the checks above.
func TestCheckOfExpressionsFindsMistakes(t *testing.T) {
	t.Parallel()
	inv := newInventory(t)
	for _, wrong := range []struct{ name, label, operator, value string }{
		{"card_gateway_requests_total", "outcome", "=", "replay"},
		{"card_gateway_requests_total", "outcome", "=~", "upstream_error|upstream_timeouts"},
		{"card_gateway_store_seconds_bucket", "call", "=", "settles"},
		{"card_gateway_overhead_seconds_bucket", "le", "=", "0.02"},
		{"card_gateway_clock_skew_seconds_bucket", "le", "=", "30"},
		{"card_gateway_clock_skew_seconds_bucket", "le", "=~", `-31(\.0)?`},
	} {
		if inv.checkValue(wrong.name, wrong.label, wrong.operator, wrong.value) == "" {
			t.Errorf("%s{%s%s%q} passes for right", wrong.name, wrong.label, wrong.operator, wrong.value)
		}
	}
	for _, name := range []string{"card_gateway_request_total", "card_gateway_store_seconds", "job:card_gateway_nothing:rate5m"} {
		if _, ok := inv.labelsOf(name); ok {
			t.Errorf("%s passes for a series", name)
		}
	}
}
