package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/card-gateway/card-gateway/bench/report"
)

// What docs/performance.md shows.
var (
	committed = filepath.Join("results", "figures.csv")
	page      = filepath.Join(root, "docs", "performance.md")
	pictures  = filepath.Join(root, "docs", "performance")
)

// report prints the tables and writes figures and plots.
func (o *options) report(results *report.Results, out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n\n%s\n", strings.Join(results.Machine, "\n"), tables(results))
	figures, drawn := filepath.Join(o.out, "figures.csv"), o.out
	if o.docs {
		figures, drawn = committed, pictures
	}
	for _, dir := range []string{filepath.Dir(figures), drawn} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // figures, for all to read
			return err
		}
	}
	if err := results.Write(figures); err != nil {
		return err
	}
	results, err := report.Read(figures) // as stored: rounded
	if err != nil {
		return err
	}
	if _, err := results.Draw(drawn, names, every, plots); err != nil {
		return err
	}
	fmt.Fprintf(out, "The figures are in %s, the plots in %s.\n", figures, drawn)
	if !o.docs {
		return nil
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	changed, err := withTables(string(text), results)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(changed), 0o644) //nolint:gosec // a page, for all to read
}

// tables returns all of them.
func tables(results *report.Results) string {
	return results.Markdown(names) + others(results)
}

// pageTables returns the first of them, and the ratios of the others.
func pageTables(results *report.Results) string {
	return results.First().Markdown(names) + "\n**All scenarios, in parts of plain Caddy**\n\n" + results.Ratios(names) + others(results)
}

// others returns the tables of growth and of latencies.
func others(results *report.Results) string {
	latencies := results.Latencies(names)
	if latencies != "" {
		latencies = "\n**Latency at a constant rate, POST of 1 KiB, 32 connections**\n\n" + latencies
	}
	return latencies + "\n**Growth, in parts of the figures with one key**\n\n" + results.Growth(names, growth)
}

// The part of the page between these lines is made from the figures.
const (
	tablesBegin = "<!-- What follows is written by make bench ARGS=-docs. -->\n"
	tablesEnd   = "<!-- Until here. -->\n"
)

// withTables returns the page with the tables of these results.
func withTables(text string, results *report.Results) (string, error) {
	before, rest, begins := strings.Cut(text, tablesBegin)
	_, after, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return "", fmt.Errorf("%s has no place for the tables", page)
	}
	var middle strings.Builder
	for _, line := range results.Machine {
		fmt.Fprintf(&middle, "- %s\n", line)
	}
	return before + tablesBegin + "\n" + middle.String() + "\n" + pageTables(results) + "\n" + tablesEnd + after, nil
}
