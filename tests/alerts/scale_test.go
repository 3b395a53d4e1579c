// Package alerts injects faults into running gateways, one each, and requires
// exactly the alert that ops/alerts.yml has for it.
package alerts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// The interval of scrapes for which the rules are written, and how long Prometheus
// looks back for a sample.
const (
	scrapeEvery = 15 * time.Second
	lookBack    = 5 * time.Minute
)

// A scale is how many times faster than the rules a test runs.
type scale float64

// of returns a duration of the rules as the test takes it.
func (s scale) of(d time.Duration) time.Duration { return time.Duration(float64(d) / float64(s)) }

// text returns a duration of the rules, such as 15m, in the test.
func (s scale) text(t testing.TB, duration string) string {
	t.Helper()
	unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[duration[len(duration)-1]]
	n, err := strconv.Atoi(duration[:len(duration)-1])
	if err != nil || unit == 0 {
		t.Fatalf("%q is no duration such as 80s or 15m", duration)
	}
	return fmt.Sprintf("%dms", s.of(time.Duration(n)*unit).Milliseconds())
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	timeRange = regexp.MustCompile(`\[\w+\]|offset \w+`)
	anyTime   = regexp.MustCompile(`\b[0-9]+[a-z]+\b`)
	shortTime = regexp.MustCompile(`le="0\.(005|01)"`)
)

// expression returns a PromQL expression with all ranges and offsets scaled.
//
// Bounds in milliseconds become 1 s: how fast the gateway is on this machine now is
// not what the test asks.
func (s scale) expression(t testing.TB, expr string) string {
	t.Helper()
	expr = timeRange.ReplaceAllStringFunc(expr, func(found string) string {
		return anyTime.ReplaceAllStringFunc(found, func(d string) string { return s.text(t, d) })
	})
	rest := timeRange.ReplaceAllString(quoted.ReplaceAllString(expr, `""`), "")
	if left := anyTime.FindString(rest); left != "" {
		t.Fatalf("the duration %s is neither a range nor an offset: %s", left, expr)
	}
	return shortTime.ReplaceAllString(expr, `le=~"1(\\.0)?"`)
}

// evaluated is a series that each group of rules records last: when it was
// evaluated.
const evaluated = "test:evaluated"

// rules writes ops/NAME into a directory, with every interval, for, range and
// offset scaled, and returns the path. The job of the gateways is a pattern, as
// PromQL has it.
func (s scale) rules(t testing.TB, name, dir, job string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../ops", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name     string
			Interval string
			Rules    []map[string]any
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for i := range file.Groups {
		group := &file.Groups[i]
		group.Interval = s.text(t, group.Interval)
		for _, rule := range group.Rules {
			rule["expr"] = strings.ReplaceAll(s.expression(t, rule["expr"].(string)), `job="card-gateway"`, job)
			if wait, waits := rule["for"].(string); waits {
				rule["for"] = s.text(t, wait)
			}
		}
		group.Rules = append(group.Rules, map[string]any{"record": evaluated, "expr": "vector(time())", "labels": map[string]string{"group": group.Name}})
	}
	scaled, err := yaml.Marshal(&file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, scaled, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestScale checks that every duration of an expression is scaled, and nothing
// else.
func TestScale(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`rate(a:rate2m{within="1d"}[2m]) > 5`:            `rate(a:rate2m{within="1d"}[12000ms]) > 5`,
		`avg_over_time(a:share5m[1d] offset 30m)`:        `avg_over_time(a:share5m[8640000ms] offset 180000ms)`,
		`a{le="0.005"} - b{le="0.01"} - c{le="0.1"}[5m]`: `a{le=~"1(\\.0)?"} - b{le=~"1(\\.0)?"} - c{le="0.1"}[30000ms]`,
	} {
		if got := scale(10).expression(t, expr); got != want {
			t.Errorf("%s is scaled to %s, want %s", expr, got, want)
		}
	}
}
