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
	sinceTime = regexp.MustCompile(`time\(\) - ([0-9]+)\b`)
	anyTime   = regexp.MustCompile(`\b[0-9]+[a-z]+\b`)
	shortTime = regexp.MustCompile(`le="0\.(005|01)"`)
)

// expression returns a PromQL expression with all ranges, offsets and differences to
// the current time scaled.
//
// Bounds in milliseconds become 1 s: how fast the gateway is on this machine now is
// not what the test asks.
func (s scale) expression(t testing.TB, expr string) string {
	t.Helper()
	expr = timeRange.ReplaceAllStringFunc(expr, func(found string) string {
		return anyTime.ReplaceAllStringFunc(found, func(d string) string { return s.text(t, d) })
	})
	expr = sinceTime.ReplaceAllStringFunc(expr, func(found string) string {
		seconds, _ := strconv.ParseFloat(sinceTime.FindStringSubmatch(found)[1], 64)
		return fmt.Sprintf("time() - %g", seconds/float64(s))
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

// A group of rules, as in the files of ops/.
type group struct {
	Name     string
	Interval string
	Rules    []rule
}

type rule struct {
	Alert       string `yaml:",omitempty"`
	Record      string `yaml:",omitempty"`
	Expr        string
	For         string            `yaml:",omitempty"`
	Labels      map[string]string `yaml:",omitempty"`
	Annotations map[string]string `yaml:",omitempty"`
}

// readRules reads ops/NAME.
func readRules(t testing.TB, name string) []group {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../ops", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []group }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups
}

// rules writes ops/NAME into a directory, with every interval, for, range and
// offset scaled, and returns the path. The job of the gateways is a pattern, as
// PromQL has it.
func (s scale) rules(t testing.TB, name, dir, job string) string {
	t.Helper()
	groups := readRules(t, name)
	for i := range groups {
		group := &groups[i]
		group.Interval = s.text(t, group.Interval)
		for j := range group.Rules {
			r := &group.Rules[j]
			r.Expr = strings.ReplaceAll(s.expression(t, r.Expr), `job="card-gateway"`, job)
			if r.For != "" {
				r.For = s.text(t, r.For)
			}
		}
		group.Rules = append(group.Rules, rule{Record: evaluated, Expr: "vector(time())", Labels: map[string]string{"group": group.Name}})
	}
	scaled, err := yaml.Marshal(map[string]any{"groups": groups})
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
		`max by (job) (a) < time() - 100`:                `max by (job) (a) < time() - 10`,
		`a{le="0.005"} - b{le="0.01"} - c{le="0.1"}[5m]`: `a{le=~"1(\\.0)?"} - b{le=~"1(\\.0)?"} - c{le="0.1"}[30000ms]`,
	} {
		if got := scale(10).expression(t, expr); got != want {
			t.Errorf("%s is scaled to %s, want %s", expr, got, want)
		}
	}
}
