// Package ops tests the work of operators: metrics, logs, rules, dashboard,
// reloads, master keys.
package ops

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/card-gateway/card-gateway/auth"
)

// This file checks rules, dashboard, runbooks and the expressions in the guides
// against the existing metrics.

const runbooksURL = "https://github.com/card-gateway/card-gateway/blob/main/docs/runbooks/"

// A rule of ops/alerts.yml or ops/recording.yml.
type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

func rules(t testing.TB, file string) []rule {
	t.Helper()
	var doc struct{ Groups []struct{ Rules []rule } }
	readYAML(t, file, &doc)
	var all []rule
	for _, group := range doc.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s holds no rules", file)
	}
	return all
}

func readYAML(t testing.TB, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readFile(t, file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func readFile(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// promtool runs Prometheus' checker in the directory ops.
func promtool(t testing.TB, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not installed; tests/install-tools.sh installs it (Debian package prometheus)")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = "../../ops"
	cmd.Env = append(os.Environ(), "GOGC=800") // it makes much garbage, and lives for less than a minute
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestRules runs the rules' own tests: each alert fires by its cause, and not
// without it.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "recording.yml", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
	promtool(t, "test", "rules", "alerts_quiet_test.yml")
}

// A ruleTest is one test of ops/alerts_test.yml.
type ruleTest struct {
	Name   string
	Series []struct{ Series string } `yaml:"input_series"`
	Alerts []struct {
		Name   string `yaml:"alertname"`
		Expect []any  `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
	Queries []struct{ Expr string } `yaml:"promql_expr_test"`
}

// TestEveryAlertIsTested requires a test of each alert, silent and firing, and a
// healthy hour that contains every metric and every reason.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	var doc struct{ Tests []ruleTest }
	readYAML(t, "../../ops/alerts_test.yml", &doc)
	silent, firing := make(map[string]bool), make(map[string]bool)
	for _, test := range doc.Tests {
		for _, alert := range test.Alerts {
			if len(alert.Expect) == 0 {
				silent[alert.Name] = true
			} else {
				firing[alert.Name] = true
			}
		}
	}
	for _, r := range rules(t, "../../ops/alerts.yml") {
		if !silent[r.Alert] || !firing[r.Alert] {
			t.Errorf("ops/alerts_test.yml shows %s silent: %t, firing: %t; want both", r.Alert, silent[r.Alert], firing[r.Alert])
		}
	}

	var hours struct{ Tests []ruleTest }
	readYAML(t, "../../ops/alerts_quiet_test.yml", &hours)
	healthy := hours.Tests[0]
	if !strings.Contains(healthy.Name, "healthy hour") || len(healthy.Queries) == 0 || !strings.Contains(healthy.Queries[0].Expr, "ALERTS") {
		t.Fatalf("the first test is %q; want the healthy hour, with a query for ALERTS first", healthy.Name)
	}
	var series strings.Builder
	for _, s := range healthy.Series {
		series.WriteString(s.Series + "\n")
	}
	for name := range gatewayMetrics(t) {
		if !strings.Contains(series.String(), name) {
			t.Errorf("the healthy hour lacks the metric %s", name)
		}
	}
	for _, reason := range auth.Reasons() {
		if !strings.Contains(series.String(), fmt.Sprintf(`outcome="%s"`, reason)) {
			t.Errorf("the healthy hour lacks requests with the outcome %s", reason)
		}
	}
}

// TestEveryAlertHasARunbook also finds pages that no alert needs, and checks the
// table of pages.
func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	index := readFile(t, "../../docs/runbooks/README.md")
	used := map[string]bool{"README.md": true}
	for _, r := range rules(t, "../../ops/alerts.yml") {
		severity := r.Labels["severity"]
		if !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("%s has the severity %q", r.Alert, severity)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks a summary or a description", r.Alert)
		}
		page, ours := strings.CutPrefix(r.Annotations["runbook_url"], runbooksURL)
		if !ours {
			t.Errorf("%s has the runbook %q; want one below %s", r.Alert, r.Annotations["runbook_url"], runbooksURL)
			continue
		}
		used[page] = true
		text := readFile(t, "../../docs/runbooks/"+page)
		for _, part := range []string{r.Alert, "**" + severity, "## Confirm", "## Do"} {
			if !strings.Contains(text, part) {
				t.Errorf("docs/runbooks/%s, of %s, lacks %q", page, r.Alert, part)
			}
		}
		row := fmt.Sprintf("| %s | %s | [%s](%s) |", r.Alert, severity, strings.TrimSuffix(page, ".md"), page)
		if !strings.Contains(index, row) {
			t.Errorf("docs/runbooks/README.md lacks the row %s", row)
		}
	}
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		if !used[filepath.Base(path)] {
			t.Errorf("no alert names %s", path)
		}
	}
}

// TestVariablesOfUnitAndImageAreRead requires that a Caddyfile reads each variable
// that unit and image set. A page has a Caddyfile of its own, and the variables of a
// client.
func TestVariablesOfUnitAndImageAreRead(t *testing.T) {
	t.Parallel()
	example := readFile(t, "../../Caddyfile.example") + readFile(t, "../../ops/kubernetes/Caddyfile") + readFile(t, "../../ops/two-nodes/Caddyfile")
	variable := regexp.MustCompile(`\bCARD_[A-Z_]+\b`)
	for _, file := range []string{"../../ops/card-gateway.service", "../../ops/Containerfile", "../../docs/deployment.md", "../../docs/containers.md", "../../docs/several-nodes.md", "../../ops/two-nodes/nodes.conf"} {
		text := readFile(t, file)
		for _, name := range variable.FindAllString(text, -1) {
			ofClient := name == "CARD_KEY_ID" || name == "CARD_SECRET"
			if !ofClient && !strings.Contains(example+text, "{$"+name) {
				t.Errorf("%s sets %s, which no Caddyfile reads", file, name)
			}
		}
	}
}
