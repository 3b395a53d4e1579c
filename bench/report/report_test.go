package report

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func rows() []Row {
	row := func(server string, round int, perSecond, cpu, redis float64) Row {
		return Row{
			Scenario: "s", Server: server, Round: round, Body: 1024, Connections: 32, Keys: 1, Outcome: "accepted",
			Requests: 100, PerSecond: perSecond, CPU: cpu, RedisCPU: redis, P50: 1, P99: 2.5, Resident: 60,
		}
	}
	return []Row{ // the machine is half as fast in the second round
		row("base", 1, 1000, 100, 0), row("ours", 1, 1500, 50, 10), row("hand", 1, 2000, 20, 10),
		row("base", 2, 500, 200, 0), row("ours", 2, 750, 100, 20), row("hand", 2, 1000, 40, 20),
		row("base", 3, 1000, 100, 0), row("ours", 3, 1600, 60, 20), row("hand", 3, 1600, 20, 20),
	}
}

// Ratios are computed within a round. Each figure has its own median.
func TestLines(t *testing.T) {
	r := Results{Rows: rows()}
	lines := r.Lines("base", "hand")
	if len(lines) != 3 || lines[1].Server != "ours" || lines[1].Round != 3 {
		t.Fatalf("%+v", lines)
	}
	l := lines[1]
	if l.PerSecond != 1500 || l.CPU != 60 || l.ToBaseline != 1.5 || l.CPUToBase != 0.5 || l.ToByHand != 0.75 || l.TotalCPUToHand != 2 {
		t.Errorf("%+v", l)
	}
	if alone := (&Results{Rows: rows()}).Lines("nobody", "nobody"); alone[0].ToBaseline != 0 {
		t.Errorf("a ratio to a server that did not run: %+v", alone[0])
	}
}

// Growth leaves out servers that did not run in both scenarios, and the effect
// of a slower machine.
func TestGrowth(t *testing.T) {
	r := Results{Rows: rows()}
	for _, row := range rows() {
		if row.Scenario = "later"; row.Server != "hand" {
			if row.PerSecond, row.CPU = row.PerSecond/2, row.CPU*2; row.Server == "ours" {
				row.PerSecond, row.RedisCPU = row.PerSecond*0.9, row.RedisCPU*2
			}
			r.Rows = append(r.Rows, row)
		}
	}
	names := Names{Baseline: "base", ByHand: "hand", Server: strings.ToUpper, Scenario: strings.ToUpper}
	got := r.Growth(names, []Point{{"s", ""}, {"later", "Later"}, {"never", "Never"}})
	want := "| requests/s, CPU | Later | Never |\n|---|---:|---:|\n| OURS | 0.90, 1.00 | |\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// Scenarios with a rate have a table of their own, with the ratio of each round.
func TestLatencies(t *testing.T) {
	r := Results{Rows: rows()}
	for i, row := range rows() {
		row.Scenario, row.Rate, row.P50, row.P99, row.P999 = "steady", 1000, 0.5, float64(2+i), 20
		r.Rows = append(r.Rows, row)
	}
	names := Names{Baseline: "base", ByHand: "hand", Server: strings.ToUpper, Scenario: strings.ToUpper}
	if want := "| 1000 | OURS | 0.50 | 6.00 | 20.00 | 1.50, 1.20, 1.12 | 60.0 | 20.0 |\n"; !strings.Contains(r.Latencies(names), want) {
		t.Errorf("%s\nwant\n%s", r.Latencies(names), want)
	}
	if lines := strings.Count(r.Latencies(names), "\n"); lines != 5 {
		t.Errorf("%d lines, want 5:\n%s", lines, r.Latencies(names))
	}
	for _, table := range []string{r.Markdown(names), r.Ratios(names)} {
		if strings.Contains(table, "STEADY") {
			t.Errorf("a scenario with a rate is in\n%s", table)
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.csv")
	written := &Results{Machine: []string{"two cores", "a day"}, Rows: rows()}
	if err := written.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := Read(path)
	if err != nil || !reflect.DeepEqual(read, written) {
		t.Errorf("read %+v, %v", read, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]string{
		"no rows": "", "another column": strings.Replace(string(text), "p50_ms", "p51_ms", 1),
		"no number": strings.Replace(string(text), "1024", "1 KiB", 1), "a field too few": string(text) + "s,ours\n",
	} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil {
			t.Errorf("%s: is read", name)
		}
	}
}

// Plots without any measurement are left out.
func TestDraw(t *testing.T) {
	dir := t.TempDir()
	r := Results{Rows: rows()}
	names := Names{Baseline: "base", ByHand: "hand", Server: strings.ToUpper, Scenario: strings.ToUpper}
	drawn, err := r.Draw(dir, names, []string{"base", "ours", "hand"}, []Plot{
		{File: "one.svg", Title: "One", Points: []Point{{"s", "S"}}},
		{File: "cost.svg", Title: "Cost", Cost: true, Points: []Point{{"s", "S"}}},
		{File: "two.svg", Title: "Two", Points: []Point{{"s", "S"}, {"never", "N"}}},
		{File: "never.svg", Title: "Never", Points: []Point{{"never", "N"}}},
	})
	if err != nil || !reflect.DeepEqual(drawn, []string{"one.svg", "cost.svg", "two.svg"}) {
		t.Errorf("drawn %v, %v", drawn, err)
	}
	for _, name := range drawn {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), "<svg") {
			t.Errorf("%s is no picture: %v", name, err)
		}
	}
}
