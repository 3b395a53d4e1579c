package node

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/meter"
)

// A script of moments: what is counted between two readings is in a step, and what is older
// than fifteen minutes in none.
func TestRecent(t *testing.T) {
	var m recentMemory
	begin := time.Unix(1_800_000_000, 0)
	total := Totals{}
	reads := 0
	take := func(after time.Duration) {
		m.Take(begin.Add(after), func() Totals { reads++; return total })
	}
	take(0)
	if steps := m.Steps(begin); len(steps) != 0 || reads != 1 {
		t.Fatalf("the first reading is the step %+v", steps)
	}
	total = Totals{
		Outcomes: map[string]uint64{"accepted": 40, "would_refuse_scope_missing": 2, "scope_missing": 3, "signature_mismatch": 1, "store_unavailable": 2, "upstream_timeout": 5},
		Upstream: map[string]uint64{"2xx": 42, "timeout": 5},
		Times:    map[string]meter.Times{"a:1": {0.1: 50, 0.2: 48, 0.4: 2}, "b:1": {}},
	}
	take(5 * time.Second)
	if reads != 1 {
		t.Error("the counters are read more often than every ten seconds")
	}
	take(9500 * time.Millisecond)
	steps := m.Steps(begin.Add(10 * time.Second))
	if len(steps) != 1 || steps[0].Accepted != 42 || steps[0].Refused != 4 || steps[0].Failed != 7 || steps[0].Seconds != 9.5 || steps[0].Upstream["timeout"] != 5 || steps[0].Outcomes["scope_missing"] != 3 ||
		fmt.Sprint(steps[0].Issuers) != "map[a:1:{0.1 0.4 100}]" {
		t.Errorf("%+v", steps)
	}
	total = Totals{Outcomes: map[string]uint64{"accepted": 41}, Times: map[string]meter.Times{"a:1": {0.1: 1}}} // begun anew
	take(20 * time.Second)
	if steps = m.Steps(begin.Add(20 * time.Second)); len(steps) != 2 || len(steps[1].Issuers) != 0 {
		t.Errorf("%+v", steps)
	}
	for after := 30 * time.Second; after < time.Hour; after += 10 * time.Second {
		take(after)
	}
	if steps = m.Steps(begin.Add(time.Hour)); len(steps) != 89 || cap(m.steps) > 256 || begin.Add(time.Hour).Sub(steps[0].At) >= recentSpan {
		t.Errorf("%d steps in %d from %v", len(steps), cap(m.steps), steps[0].At)
	}
}

// The bounds of the histogram that the issuers' answers are counted in are at most a tenth
// above what was observed.
func TestQuantile(t *testing.T) {
	answers := meter.Times{}
	for i := 1; i <= 1000; i++ {
		answers[math.Exp2(math.Ceil(8*math.Log2(float64(i)/1000))/8)]++
	}
	for part, want := range map[float64]float64{0.5: 0.5, 0.99: 0.99, 1: 1} {
		if got := quantile(answers, part); got < want || got > 1.1*want {
			t.Errorf("%v: %v", part, got)
		}
	}
}
