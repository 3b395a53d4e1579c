package meter

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Each answer is counted at a bound that is at most a tenth above the time that it took.
func TestTimes(t *testing.T) {
	histogram := prometheus.NewHistogram(withNative(prometheus.HistogramOpts{Name: "h"}, nativeFromTime))
	var observed []float64
	for took := 3 * time.Microsecond; took < time.Minute; took = took * 13 / 10 {
		histogram.Observe(took.Seconds())
		observed = append(observed, took.Seconds())
	}
	histogram.Observe(0)
	var written dto.Metric
	if err := histogram.Write(&written); err != nil {
		t.Fatal(err)
	}
	times := make(Times)
	times.add(written.GetHistogram())
	if times[nativeFromTime.Seconds()] != 1 {
		t.Errorf("no answer took no time: %v", times)
	}
	delete(times, nativeFromTime.Seconds())
	var bounds []float64
	for bound, n := range times {
		bounds = append(bounds, slices.Repeat([]float64{bound}, int(n))...)
	}
	slices.Sort(bounds)
	if len(bounds) != len(observed) {
		t.Fatalf("%d answers of %d", len(bounds), len(observed))
	}
	for i, bound := range bounds {
		if bound < observed[i] || bound > nativeFactor*observed[i] {
			t.Errorf("%v is counted at %v", observed[i], bound)
		}
	}
}
