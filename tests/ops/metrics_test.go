package ops

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
)

// A metric as the source of caddymodule defines it.
type metric struct {
	histogram bool
	labels    []string
	bounds    []string // of a histogram's buckets, as written
}

// gatewayMetrics reads the definitions from the source, so that the checks do not
// depend on the traffic of a gateway.
func gatewayMetrics(t testing.TB) map[string]metric {
	t.Helper()
	all := make(map[string]metric)
	for _, file := range moduleFiles(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			var m metric
			name := ""
			switch fn, _ := call.Fun.(*ast.Ident); {
			case fn != nil && (fn.Name == "counters" || fn.Name == "gauges"):
				m.labels = texts(call.Args[2:])
				name = literals(call.Args[0])[0]
			case fn != nil && fn.Name == "gauge":
				name = literals(call.Args[0])[0]
			case fn != nil && fn.Name == "histograms":
				m = metric{histogram: true, bounds: literals(call.Args[2]), labels: texts(call.Args[3:])}
				name = literals(call.Args[0])[0]
			default:
				opts, ok := call.Args[0].(*ast.CompositeLit)
				if !ok || !strings.HasSuffix(selected(opts.Type), "Opts") {
					return true
				}
				m.histogram = strings.HasPrefix(selected(opts.Type), "Histogram")
				for _, field := range opts.Elts {
					switch pair := field.(*ast.KeyValueExpr); pair.Key.(*ast.Ident).Name {
					case "Name":
						if values := literals(pair.Value); len(values) > 0 {
							name = values[0]
						}
					case "Buckets":
						m.bounds = literals(pair.Value)
					}
				}
			}
			if name != "" {
				all[name] = m
			}
			return true
		})
	}
	if len(all) == 0 {
		t.Fatal("found no metrics in the source of caddymodule")
	}
	return all
}

func goFiles(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("../../" + dir + "/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatal(dir, err)
	}
	return paths
}

func moduleFiles(t testing.TB) []*ast.File {
	t.Helper()
	var files []*ast.File
	paths := slices.Concat(goFiles(t, "caddymodule/meter"), goFiles(t, "caddymodule/audit"))
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// selected returns the last name of a type such as prometheus.CounterOpts.
func selected(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

// texts returns the texts and numbers in the expressions.
func texts(list []ast.Expr) (all []string) {
	for _, e := range list {
		all = append(all, literals(e)...)
	}
	return all
}

// literals returns the texts and numbers in an expression.
func literals(e ast.Expr) []string {
	var all []string
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			if number, ok := n.X.(*ast.BasicLit); ok && n.Op == token.SUB {
				all = append(all, "-"+number.Value)
				return false
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if err != nil {
				text = n.Value // a number
			}
			all = append(all, text)
		}
		return true
	})
	return all
}

// closedSets returns the values of the labels that have a fixed set.
func closedSets(t testing.TB) map[string][]string {
	t.Helper()
	sets := map[string][]string{"status": keys.Statuses(), "within": {"1d", "7d", "30d"}, "state": keys.SealStates(), "use": {"server", "client"}, "field": keys.ForgedFields(), "direction": {"request", "answer"}, "result": {"ok", "invalid", "failed", "unchanged"}}
	for _, reason := range auth.Reasons() {
		sets["outcome"] = append(sets["outcome"], reason.String(), "would_refuse_"+reason.String())
	}
	variables := map[string]string{
		"LimitDecisionNames": "decision", "translationVariants": "variant", "UpstreamClasses": "class", "issuerClasses": "class", "Degradations": "what",
	}
	values := make(map[string]bool) // of single metrics by their labels
	for _, file := range moduleFiles(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 && variables[spec.Names[0].Name] != "" {
				label := variables[spec.Names[0].Name]
				sets[label] = append(sets[label], literals(spec.Values[0].(*ast.CompositeLit))...)
				delete(variables, spec.Names[0].Name)
			}
			if call, ok := n.(*ast.CallExpr); ok {
				fn, _ := call.Fun.(*ast.Ident)
				if fn != nil && fn.Name == "call" { // of the store
					sets["call"] = append(sets["call"], texts(call.Args)...)
				}
				if selected(call.Fun) == "WithLabelValues" || fn != nil && fn.Name == "lateHistograms" {
					for _, value := range texts(call.Args) {
						values[value] = true
					}
				}
			}
			return true
		})
	}
	for _, result := range []string{"ok", "error", "given", "skipped"} {
		if !values[result] {
			t.Fatalf("no metric has the result %s any more", result)
		}
		sets["result"] = append(sets["result"], result)
	}
	if len(variables) > 0 {
		t.Fatalf("the source of caddymodule has no %v any more", slices.Collect(maps.Keys(variables)))
	}
	return sets
}

// TestEveryMetricIsWatched requires each metric on the dashboard.
func TestEveryMetricIsWatched(t *testing.T) {
	t.Parallel()
	board := readFile(t, "../../ops/dashboard.json")
	for name := range gatewayMetrics(t) {
		if !strings.Contains(board, name) {
			t.Errorf("ops/dashboard.json does not show %s", name)
		}
	}
}

// A metricRow is a row of the table of metrics in docs/operations.md.
type metricRow struct {
	name, query string
	labels      []string
}

var code = regexp.MustCompile("`([^`]*)`")

func metricRows(t testing.TB) []metricRow {
	t.Helper()
	var all []metricRow
	for line := range strings.Lines(readFile(t, "../../docs/operations.md")) {
		cells := strings.Split(line, "|") // the first and the last are empty
		if len(cells) != 6 || !strings.HasPrefix(line, "| `card_gateway_") {
			continue
		}
		row := metricRow{name: strings.Trim(cells[1], " `"), query: code.FindStringSubmatch(cells[4])[1]}
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			row.labels = append(row.labels, m[1])
		}
		all = append(all, row)
	}
	return all
}

// TestMetricsAreDocumented compares the table with the source.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	metrics, rows := gatewayMetrics(t), metricRows(t)
	for _, row := range rows {
		m, known := metrics[row.name]
		if !known {
			t.Errorf("docs/operations.md describes %s, which does not exist", row.name)
		} else if !slices.Equal(row.labels, m.labels) {
			t.Errorf("docs/operations.md gives %s the labels %v; it has %v", row.name, row.labels, m.labels)
		} else if !strings.Contains(row.query, row.name) {
			t.Errorf("the typical query of %s is about something else: %s", row.name, row.query)
		}
	}
	for name := range metrics {
		if !slices.ContainsFunc(rows, func(r metricRow) bool { return r.name == name }) {
			t.Errorf("docs/operations.md does not describe %s", name)
		}
	}
	for _, reason := range auth.Reasons()[1:] {
		row := fmt.Sprintf("| `%s` | %d |", reason, reason.Status())
		if !strings.Contains(readFile(t, "../../docs/operations.md"), row) {
			t.Errorf("docs/operations.md lacks the row %s", row)
		}
	}
}
