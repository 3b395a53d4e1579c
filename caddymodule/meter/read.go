package meter

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// each calls f for every metric of a collector, with its labels.
func each(collector prometheus.Collector, f func(labels map[string]string, m *dto.Metric)) {
	metrics := make(chan prometheus.Metric)
	go func() {
		collector.Collect(metrics)
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
		f(labels, &written)
	}
}

// Sums returns the values of a metric by one of its labels, without zeros. If
// another label and its value are given, only metrics with them are summed.
func Sums(collector prometheus.Collector, label string, where ...string) map[string]uint64 {
	found := make(map[string]uint64)
	each(collector, func(labels map[string]string, m *dto.Metric) {
		value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
		if value > 0 && (len(where) < 2 || labels[where[0]] == where[1]) {
			found[labels[label]] += uint64(value)
		}
	})
	return found
}

// Times are numbers of answers by how long they took at most, in seconds. The bounds are
// those of a native histogram.
type Times map[float64]uint64

// AnswerTimes returns how long the issuers took to answer since the start of the process,
// by issuer of card_forward; the empty one is all issuers together.
func AnswerTimes() map[string]Times {
	found := make(map[string]Times)
	add := func(labels map[string]string, m *dto.Metric) {
		issuer := labels["issuer"]
		if found[issuer] == nil {
			found[issuer] = make(Times)
		}
		found[issuer].add(m.GetHistogram())
	}
	each(upstreamSeconds, add)
	each(issuerSeconds, add)
	return found
}

// IssuersOut returns how many handlers have taken each issuer of card_forward out.
func IssuersOut() map[string]int {
	found := make(map[string]int)
	each(issuerOut, func(labels map[string]string, m *dto.Metric) { found[labels["issuer"]] = int(m.GetGauge().GetValue()) })
	return found
}

// add adds the answers of a histogram.
func (t Times) add(h *dto.Histogram) {
	t[h.GetZeroThreshold()] += h.GetZeroCount()
	index, count, deltas := 0, int64(0), h.GetPositiveDelta()
	for _, span := range h.GetPositiveSpan() {
		index += int(span.GetOffset())
		for range span.GetLength() {
			count += deltas[0]
			deltas = deltas[1:]
			t[math.Exp2(math.Ldexp(float64(index), -int(h.GetSchema())))] += uint64(count)
			index++
		}
	}
}
