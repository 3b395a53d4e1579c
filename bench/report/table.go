package report

import (
	"fmt"
	"slices"
	"strings"
)

// Names has the titles of servers and scenarios in tables and plots.
type Names struct {
	Baseline, ByHand string                   // the servers that others are compared with
	Server           func(name string) string // a title
	Scenario         func(name string) string // a title
}

// Markdown returns a table for each scenario without a rate.
func (r *Results) Markdown(n Names) string {
	var out strings.Builder
	scenario := ""
	for _, l := range r.Lines(n.Baseline, n.ByHand) {
		if l.Rate > 0 {
			continue
		}
		if l.Scenario != scenario {
			if scenario != "" {
				out.WriteByte('\n')
			}
			scenario = l.Scenario
			fmt.Fprintf(&out, "**%s**\n\n", n.Scenario(scenario))
			out.WriteString("| | requests/s | to Caddy | CPU µs | to Caddy | Redis CPU µs | requests/s to Lua | CPU with Redis to Lua | p50 ms | p99 ms | RSS MiB |\n")
			out.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
		}
		fmt.Fprintf(&out, "| %s | %.0f | %s | %.1f | %s | %s | %s | %s | %.2f | %.2f | %.0f |\n", n.Server(l.Server),
			l.PerSecond, times(l.ToBaseline), l.CPU, times(l.CPUToBase), micros(l.RedisCPU), times(l.ToByHand), times(l.TotalCPUToHand),
			l.P50, l.P99, l.Resident)
	}
	return out.String()
}

// Latencies returns a table of the scenarios with a rate, or nothing without any.
func (r *Results) Latencies(n Names) string {
	var out strings.Builder
	const head = "| requests/s | | p50 ms | p99 ms | p99.9 ms | p99 to Caddy's, each round | CPU µs | Redis CPU µs |\n|---:|---|---:|---:|---:|---:|---:|---:|\n"
	for _, l := range r.Lines(n.Baseline, n.ByHand) {
		if l.Rate == 0 {
			continue
		}
		if out.Len() == 0 {
			out.WriteString(head)
		}
		var rounds []string
		for _, ratio := range l.P99ToBase {
			rounds = append(rounds, times(ratio))
		}
		fmt.Fprintf(&out, "| %d | %s | %.2f | %.2f | %.2f | %s | %.1f | %s |\n",
			l.Rate, n.Server(l.Server), l.P50, l.P99, l.P999, strings.Join(rounds, ", "), l.CPU, micros(l.RedisCPU))
	}
	return out.String()
}

// micros returns a cost as text, or "" if there is none.
func micros(cost float64) string {
	if cost == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", cost)
}

// Ratios returns one table with a row for each scenario without a rate: for each server but the
// baseline its requests per second and its CPU without Redis, in parts of the
// baseline's.
func (r *Results) Ratios(n Names) string {
	lines := r.Lines(n.Baseline, n.ByHand)
	var scenarios, servers []string
	cells := make(map[[2]string]string)
	for _, l := range lines {
		if l.Rate > 0 {
			continue
		}
		if !slices.Contains(scenarios, l.Scenario) {
			scenarios = append(scenarios, l.Scenario)
		}
		if l.Server == n.Baseline {
			continue
		}
		if !slices.Contains(servers, l.Server) {
			servers = append(servers, l.Server)
		}
		cells[[2]string{l.Scenario, l.Server}] = fmt.Sprintf("%s, %s", times(l.ToBaseline), times(l.CPUToBase))
	}
	var out strings.Builder
	out.WriteString("| requests/s, CPU |")
	for _, server := range servers {
		fmt.Fprintf(&out, " %s |", n.Server(server))
	}
	out.WriteString("\n|---|" + strings.Repeat("---:|", len(servers)) + "\n")
	for _, scenario := range scenarios {
		fmt.Fprintf(&out, "| %s |", n.Scenario(scenario))
		for _, server := range servers {
			fmt.Fprintf(&out, " %s |", cells[[2]string{scenario, server}])
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// First returns the results of the first scenario.
func (r *Results) First() *Results {
	first := *r
	first.Rows = nil
	for _, row := range r.Rows {
		if row.Scenario == r.Rows[0].Scenario {
			first.Rows = append(first.Rows, row)
		}
	}
	return &first
}

// Growth returns a table for the servers that ran in all of the scenarios:
// requests per second, and CPU with Redis, relative to the first scenario. Both
// are first divided by those of plain Caddy, which has neither keys nor nonces,
// so that a machine that became slower has no effect.
func (r *Results) Growth(n Names, points []Point) string {
	lines := r.Lines(n.Baseline, n.ByHand)
	find := func(scenario, server string) *Line {
		at := slices.IndexFunc(lines, func(l Line) bool { return l.Scenario == scenario && l.Server == server && l.ToBaseline > 0 })
		if at < 0 {
			return nil
		}
		return &lines[at]
	}
	var out strings.Builder
	out.WriteString("| requests/s, CPU |")
	for _, p := range points[1:] {
		fmt.Fprintf(&out, " %s |", p.Label)
	}
	out.WriteString("\n|---|" + strings.Repeat("---:|", len(points)-1) + "\n")
	for _, l := range lines {
		if l.Scenario != points[0].Scenario || l.Server == n.Baseline || l.ToBaseline == 0 {
			continue
		}
		row := "| " + n.Server(l.Server) + " |"
		grown := false
		for _, p := range points[1:] {
			later, base, baseLater := find(p.Scenario, l.Server), find(points[0].Scenario, n.Baseline), find(p.Scenario, n.Baseline)
			if later == nil {
				row += " |"
				continue
			}
			grown = true
			row += fmt.Sprintf(" %.2f, %.2f |", later.ToBaseline/l.ToBaseline, later.TotalCPU()/baseLater.CPU/(l.TotalCPU()/base.CPU))
		}
		if grown {
			out.WriteString(row + "\n")
		}
	}
	return out.String()
}

// times returns a ratio as text, or "" if there is none.
func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}
