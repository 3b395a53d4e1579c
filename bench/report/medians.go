package report

import "slices"

// A Line is one server in one scenario: the median over the rounds of each
// figure, and of its ratios. A ratio is taken within a round, between runs that
// followed each other, so that a machine that slows down in between does not
// change it.
type Line struct {
	Row                                // medians; Round is the number of rounds
	ToBaseline, CPUToBase    float64   // requests per second and server CPU, to plain Caddy; 0: it did not run
	ToByHand, TotalCPUToHand float64   // the same, with the CPU of Redis, to the checks by hand
	P99ToBase                []float64 // p99 to plain Caddy's, in each round
}

// Lines returns a line for each server and scenario, in the order of the rows.
// baseline and byHand name the servers that the others are compared with.
func (r *Results) Lines(baseline, byHand string) []Line {
	type place struct{ scenario, server string }
	rounds := make(map[place][]*Row)
	var order []place
	for i := range r.Rows {
		row := &r.Rows[i]
		at := place{row.Scenario, row.Server}
		if rounds[at] == nil {
			order = append(order, at)
		}
		rounds[at] = append(rounds[at], row)
	}
	var lines []Line
	for _, at := range order {
		line := medians(rounds[at])
		line.ToBaseline = ratio(rounds[at], rounds[place{at.scenario, baseline}], perSecond)
		line.CPUToBase = ratio(rounds[at], rounds[place{at.scenario, baseline}], serverCPU)
		line.ToByHand = ratio(rounds[at], rounds[place{at.scenario, byHand}], perSecond)
		line.TotalCPUToHand = ratio(rounds[at], rounds[place{at.scenario, byHand}], (*Row).TotalCPU)
		line.P99ToBase = ratios(rounds[at], rounds[place{at.scenario, baseline}], func(r *Row) float64 { return r.P99 })
		lines = append(lines, line)
	}
	return lines
}

func perSecond(r *Row) float64 { return r.PerSecond }
func serverCPU(r *Row) float64 { return r.CPU }

// medians returns the median of each figure by itself.
func medians(rows []*Row) Line {
	line := Line{Row: *rows[0]}
	line.Round = len(rows)
	for _, c := range columns {
		switch {
		case c.number != nil:
			*c.number(&line.Row) = median(rows, func(r *Row) float64 { return *c.number(r) })
		case c.name == "requests":
			line.Requests = int(median(rows, func(r *Row) float64 { return float64(r.Requests) }))
		}
	}
	return line
}

func median(rows []*Row, of func(*Row) float64) float64 {
	all := make([]float64, len(rows))
	for i, r := range rows {
		all[i] = of(r)
	}
	return middle(all)
}

// ratio returns the median of the ratios in the rounds that both have.
func ratio(rows, others []*Row, of func(*Row) float64) float64 {
	return middle(ratios(rows, others, of))
}

// ratios returns the ratios in the rounds that both have.
func ratios(rows, others []*Row, of func(*Row) float64) (all []float64) {
	for _, r := range rows {
		for _, o := range others {
			if r.Round == o.Round && of(o) > 0 {
				all = append(all, of(r)/of(o))
			}
		}
	}
	return all
}

// middle returns the median, or 0 for no values.
func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}
