package report

import (
	"fmt"
	"strings"
)

// Names say what servers and scenarios are called in tables and plots.
type Names struct {
	Baseline, ByHand string                   // the servers that others are compared with
	Server           func(name string) string // a title
	Scenario         func(name string) string // a title
}

// Markdown returns a table for each scenario.
func (r *Results) Markdown(n Names) string {
	var out strings.Builder
	scenario := ""
	for _, l := range r.Lines(n.Baseline, n.ByHand) {
		if l.Scenario != scenario {
			if scenario != "" {
				out.WriteByte('\n')
			}
			scenario = l.Scenario
			fmt.Fprintf(&out, "**%s**\n\n", n.Scenario(scenario))
			out.WriteString("| | requests/s | to Caddy | CPU µs | to Caddy | Redis CPU µs | requests/s to Lua | CPU with Redis to Lua | p50 ms | p99 ms | RSS MiB |\n")
			out.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
		}
		redis := ""
		if l.RedisCPU > 0 {
			redis = fmt.Sprintf("%.1f", l.RedisCPU)
		}
		fmt.Fprintf(&out, "| %s | %.0f | %s | %.1f | %s | %s | %s | %s | %.2f | %.2f | %.0f |\n", n.Server(l.Server),
			l.PerSecond, times(l.ToBaseline), l.CPU, times(l.CPUToBase), redis, times(l.ToByHand), times(l.TotalCPUToHand),
			l.P50, l.P99, l.Resident)
	}
	return out.String()
}

// times writes a ratio, nothing where there is none.
func times(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", ratio)
}
