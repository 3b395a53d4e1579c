package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A dashboard is the part of ops/dashboard.json that the tests read.
type dashboard struct {
	Panels []struct {
		Title, Type, Description string
		Targets                  []struct {
			Expr     string
			Exemplar bool
		}
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func readDashboard(t testing.TB) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(readFile(t, "../../ops/dashboard.json")), &d); err != nil {
		t.Fatalf("ops/dashboard.json: %v", err)
	}
	return d
}

func TestDashboardIsWhatItsProgramWrites(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "run", "./ops/dashboard")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go run ./ops/dashboard: %v\n%s", err, &stderr)
	}
	if string(out) != readFile(t, "../../ops/dashboard.json") {
		t.Error("ops/dashboard.json is out of date: go run ./ops/dashboard > ops/dashboard.json")
	}
}

func TestPanelsSayWhatGoodLooksLike(t *testing.T) {
	t.Parallel()
	for _, p := range readDashboard(t).Panels {
		if p.Type == "row" {
			continue
		}
		if !strings.HasPrefix(p.Description, "Good: ") || len(p.Targets) == 0 {
			t.Errorf("panel %q has %d queries and the description %q; want one that begins with Good:", p.Title, len(p.Targets), p.Description)
		}
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, `instance=~"$instance"`) && !strings.Contains(target.Expr, "ALERTS{") { // not every alert has one
				t.Errorf("panel %q takes no notice of the instance: %s", p.Title, target.Expr)
			}
			if over := p.Type != "stat" && strings.Contains(target.Expr, "_bucket{"); target.Exemplar != over {
				t.Errorf("panel %q asks for exemplars: %v, want %v: %s", p.Title, target.Exemplar, over, target.Expr)
			}
		}
	}
}

// An expression is PromQL and its place in the repository.
type expression struct{ place, text string }

// shownExpressions returns the expressions of the guides and the dashboard.
func shownExpressions(t testing.TB) []expression {
	t.Helper()
	var all []expression
	d := readDashboard(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, expression{"panel " + p.Title, concrete(target.Expr)})
		}
	}
	files, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../docs/operations.md", "../../docs/several-nodes.md", "../../docs/maintenance.md") {
		p := harness.Page{Path: filepath.Base(file), Text: readFile(t, file)}
		for _, b := range harness.Blocks(p) {
			if b.Language == "promql" {
				all = append(all, expression{fmt.Sprintf("%s:%d", p.Path, b.Line), strings.TrimSpace(b.Text)})
			}
		}
	}
	for _, row := range metricRows(t) {
		all = append(all, expression{"docs/operations.md, table of metrics", row.query})
	}
	return all
}

// concrete replaces Grafana's variables.
func concrete(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*").Replace(expr)
}

// TestShownExpressionsParse has promtool read them as recording rules.
func TestShownExpressionsParse(t *testing.T) {
	t.Parallel()
	type recorded struct{ Record, Expr string }
	var list []recorded
	for _, e := range shownExpressions(t) {
		list = append(list, recorded{fmt.Sprintf("shown:%d", len(list)), e.text + " # " + e.place})
	}
	doc, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "shown", "rules": list}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shown.yml")
	if err := os.WriteFile(path, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
}
