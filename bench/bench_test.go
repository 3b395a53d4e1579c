package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/bench/report"
)

// TestShortRun checks that the bench runs and returns figures. It does not
// judge the figures: that needs a machine that does nothing else.
func TestShortRun(t *testing.T) {
	dir := t.TempDir()
	var said bytes.Buffer
	err := command(t.Context(), []string{
		"-only", "caddy,forward-embedded", "-scenarios", "post-1k,steady-1k", "-rounds", "1", "-seconds", "1", "-out", dir,
	}, &said)
	if err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if !strings.Contains(said.String(), "It takes about") {
		t.Errorf("it does not say how long it takes:\n%s", &said)
	}
	results, err := report.Read(filepath.Join(dir, "figures.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if len(results.Rows) != 4 || len(results.Machine) == 0 {
		t.Fatalf("%d rows, and %d lines on the machine", len(results.Rows), len(results.Machine))
	}
	for _, r := range results.Rows {
		for name, figure := range map[string]float64{
			"requests": float64(r.Requests), "requests per second": r.PerSecond, "CPU": r.CPU, "CPU of the load tool": r.LoadCPU,
			"p50": r.P50, "p99": r.P99, "p99.9": r.P999, "resident memory": r.Resident,
		} {
			if figure <= 0 {
				t.Errorf("%s: %s is %v", r.Server, name, figure)
			}
		}
		if steady := r.Scenario == "steady-1k"; steady != (r.Rate == 1000) || steady && r.Requests != 4000 {
			t.Errorf("%s, %s: %d requests at a rate of %d", r.Scenario, r.Server, r.Requests, r.Rate)
		}
	}
	for _, text := range results.Machine {
		if host, err := os.Hostname(); err == nil && len(host) > 2 && strings.Contains(text, host) {
			t.Errorf("the figures name this machine: %s", text)
		}
	}
}

// TestPageShowsTheFigures: docs/performance.md has the committed figures. `go
// run . -from results/figures.csv -docs` writes it again.
func TestPageShowsTheFigures(t *testing.T) {
	results, err := report.Read(committed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTables(string(text), results)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != want {
		t.Errorf("%s does not show what %s says", page, committed)
	}
	for _, p := range plots {
		if !bytes.Contains(text, []byte("(performance/"+p.File+")")) {
			t.Errorf("%s does not show %s", page, p.File)
		}
		if _, err := os.Stat(filepath.Join(pictures, p.File)); err != nil {
			t.Error(err)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, args := range [][]string{{"-only", "apache"}, {"-only", "traefik"}, {"-scenarios", "post-1t"}, {"-rounds", "0"}, {"-seconds", "0"}, {"more"}} {
		if err := command(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	chosen, err := choose([]string{"refused"}, []string{"nginx", "caddy"})
	if err != nil || len(chosen) != 1 || len(chosen[0].servers) != 1 || chosen[0].servers[0] != "caddy" {
		t.Errorf("refused with nginx and caddy: %+v, %v", chosen, err)
	}
	if all, err := choose(nil, nil); err != nil || len(all) != len(scenarios) {
		t.Errorf("nothing chosen: %d scenarios of %d, %v", len(all), len(scenarios), err)
	}
}
