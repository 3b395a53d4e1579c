package main

import "strings"

// A row is one row of the dashboard. Its panels share the width.
type row struct {
	title  string
	panels []panel
}

// A panel answers one question. Its description names the good values.
type panel struct {
	title, good string
	kind        kind
	unit        string
	queries     []query
	stacked     bool
	signed      bool    // values below zero make sense
	bad         float64 // of a stat: red from here on
	reversed    bool    // of a stat: red below bad
}

type kind string

const (
	stat  kind = "stat"
	graph kind = "timeseries"
	heat  kind = "heatmap"
)

// Units, as Grafana names them.
const (
	count    = "short"
	perSec   = "reqps"
	share    = "percentunit"
	duration = "s"
	bytes    = "bytes"
)

type query struct{ expr, legend string }

// q returns a query of an expression. In the expression, @ means the selection of
// jobs and instances, and $t the range over which rates are computed.
func q(expr, legend string) query {
	expr = strings.ReplaceAll(expr, "@", `job=~"$job",instance=~"$instance"`)
	return query{expr: strings.ReplaceAll(expr, "$t", "$__rate_interval"), legend: legend}
}
