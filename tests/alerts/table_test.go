package alerts

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestFaults injects every fault of the table into gateways that a real Prometheus
// scrapes, with the rules of ops/. Of each fault exactly the alert of the table must
// fire: no other before, meanwhile or after it.
//
// All ranges are a tenth of those of the rules. Where that fails while the machine
// stands still, the fault is skipped: something else had the time that the rules
// judge. With CARD_TEST_ALERTS=all the ranges are those of the rules, such a fault
// is injected again, the alert must fire within two minutes, and what was measured
// goes into the page that CARD_TEST_ALERTS_PAGE names. CARD_TEST_ALERTS_ONLY is a
// pattern of the faults' names.
func TestFaults(t *testing.T) {
	scales := []scale{10}
	if os.Getenv("CARD_TEST_ALERTS") == "all" {
		scales = []scale{1, 1}
	}
	again, last := chosenFaults(t), make(map[string]result)
	defer func() { writePage(t, last) }()
	for i, every := range scales {
		var results []result
		t.Run(fmt.Sprint("scale ", every), func(t *testing.T) { results = round(t, every, again) })
		again = nil
		for _, r := range results {
			last[r.name] = r
			problem := r.problem(every)
			if problem != "" && r.disturbed != "" && i < len(scales)-1 {
				t.Logf("again: %s: %s; but %s", r.name, problem, r.disturbed)
				again = append(again, r.fault)
				continue
			}
			t.Run(r.name, func(t *testing.T) { r.judge(t, every) })
		}
		if len(again) == 0 {
			return
		}
	}
}

// chosenFaults returns the faults that this machine can have.
func chosenFaults(t *testing.T) []*fault {
	t.Helper()
	only, err := regexp.Compile(os.Getenv("CARD_TEST_ALERTS_ONLY"))
	if err != nil {
		t.Fatal(err)
	}
	var chosen []*fault
	for i := range faults {
		f := &faults[i]
		if err := harness.OwnDisks(); f.prepare != nil && err != nil {
			t.Logf("left out: %s: %v", f.name, err)
		} else if only.MatchString(f.name) {
			chosen = append(chosen, f)
		}
	}
	return chosen
}

// problem returns how the alerts differ from the table, or "".
func (r *result) problem(every scale) string {
	var want []string
	if r.alert != "" {
		want = []string{r.alert}
	}
	names := slices.Sorted(maps.Keys(r.fired))
	if r.fired[r.then] > promised/time.Duration(every) {
		names = slices.DeleteFunc(names, func(name string) bool { return name == r.then })
	}
	switch {
	case !slices.Equal(names, want):
		text := fmt.Sprintf("fired are %q, want %q", names, want)
		for _, name := range names {
			text += fmt.Sprintf(", %s %s after the fault", name, strconv.Itoa(int(r.fired[name].Seconds()*float64(every)))+" s")
		}
		return text
	case r.fired[r.alert] < 0:
		return fmt.Sprintf("%s has fired %v before the fault", r.alert, -r.fired[r.alert])
	case r.accepted == 0:
		return "no request was accepted"
	case every == 1 && r.fired[r.alert] > r.promise():
		return fmt.Sprintf("%s fires after %v", r.alert, r.fired[r.alert])
	}
	return ""
}

// judge fails the test if there is a problem, and skips it if the machine stood
// still.
func (r *result) judge(t *testing.T, every scale) {
	t.Helper()
	switch problem := r.problem(every); {
	case problem == "" && r.alert != "":
		t.Logf("%s fires after %.0f s in the time of the rules", r.alert, r.fired[r.alert].Seconds()*float64(every))
	case problem == "":
	case r.disturbed != "":
		t.Skipf("the machine had no time for it: %s; but %s", problem, r.disturbed)
	default:
		t.Error(problem)
	}
}
