package caddymodule

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// traffic returns what the process counted, from its own metrics.
func traffic() keyadmin.Traffic {
	decision := func(name string) map[string]uint64 { return sums(limitDecisions, "operation", "decision", name) }
	return keyadmin.Traffic{
		Since:         process.began,
		Outcomes:      sums(requestsTotal, "outcome"),
		Upstream:      sums(upstreamResponses, "class"),
		Connections:   sums(upstreamConnections, "issuer"),
		LimitsNear:    decision(limitDecisionNames[limitNear]),
		LimitsRefused: decision(limitDecisionNames[limitRefused]),
	}
}

// sums returns the values of a metric by one of its labels, without zeros. If
// another label and its value are given, only metrics with them are summed.
func sums(of prometheus.Collector, by string, where ...string) map[string]uint64 {
	found := make(map[string]uint64)
	metrics := make(chan prometheus.Metric)
	go func() {
		of.Collect(metrics)
		close(metrics)
	}()
	for m := range metrics {
		var written dto.Metric
		if m.Write(&written) != nil {
			continue
		}
		labels := make(map[string]string, len(written.GetLabel()))
		for _, l := range written.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		value := written.GetCounter().GetValue() + written.GetGauge().GetValue()
		if value > 0 && (len(where) < 2 || labels[where[0]] == where[1]) {
			found[labels[by]] += uint64(value)
		}
	}
	return found
}
