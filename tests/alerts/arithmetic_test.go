package alerts

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This file computes from the rules how late an alert may be. A fault is one of
// everything: each call of the store fails, no request arrives. A count grows by one
// a second, somebody who scans tries twenty ids a second, and a gateway that crashes
// does so every 22 s.
const (
	scansPerSecond = 20
	crashEvery     = 22 * time.Second
	promised       = 2 * time.Minute
	promisedSlow   = 5 * time.Minute // for a trickle
)

// promise returns how late the alert of a fault may be.
func (f *fault) promise() time.Duration {
	if strings.HasSuffix(f.alert, "/slow") {
		return promisedSlow
	}
	return promised
}

var (
	explained = regexp.MustCompile(`unless .*`)
	// A comparison with a number, or with a time in the past.
	comparison = regexp.MustCompile(`(?:==|[<>]=?)\s*(time\(\) - )?([0-9]+(?:\.[0-9]+)?)`)
	// The window of a recorded series, as in share2m.
	window = regexp.MustCompile(`:(share|rate)([0-9]+[sm])\b`)
	// The gauges that are set when the keys are counted, every 30 s, and those that
	// are set every 5 s.
	counted = regexp.MustCompile(`\bcard_gateway_(?:keys|keys_expiring|key_seals)\b`)
	probed  = regexp.MustCompile(`\bcard_gateway_(?:degraded|store_up|certificates_overdue)\b`)
)

// symptom returns what a fault makes true: the rule's expression without the alerts
// that would explain it.
func (r *rule) symptom() string { return explained.ReplaceAllString(r.Expr, "") }

// sinceFault returns how long a fault lasts at most until the rule's expression is
// true for a Prometheus that sees everything at once.
func (r *rule) sinceFault(t testing.TB) (longest time.Duration) {
	t.Helper()
	text := r.symptom()
	for _, found := range comparison.FindAllStringSubmatchIndex(text, -1) {
		number, err := strconv.ParseFloat(text[found[4]:found[5]], 64)
		if err != nil {
			t.Fatal(err)
		}
		left := text[:found[0]]
		if i := strings.LastIndex(left, "\n"); i > 0 && strings.TrimSpace(left[i:]) == "" {
			left = left[:i] // the threshold is alone on its line
		}
		left = left[strings.LastIndex(left, "\n")+1:]
		longest = max(longest, reaches(t, left, text[found[0]:found[1]], number))
	}
	return longest
}

// reaches returns after what time of a fault the line of an expression passes a
// threshold.
func reaches(t testing.TB, line, threshold string, number float64) time.Duration {
	t.Helper()
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	recorded := window.FindStringSubmatch(line)
	switch {
	case strings.Contains(threshold, "time()"), strings.Contains(line, "increase("):
		return seconds(number)
	case strings.Contains(line, "changes("):
		return time.Duration(number) * crashEvery
	case recorded == nil: // a gauge
		return 0
	}
	whole, err := time.ParseDuration(recorded[2])
	switch {
	case err != nil:
		t.Fatal(err)
	case recorded[1] == "share":
		return seconds(number * whole.Seconds())
	case strings.HasPrefix(threshold, "=="): // until the last request is out of it
		return whole
	}
	return seconds(number / scansPerSecond * whole.Seconds())
}

// atMost returns how long after a fault the alert of a rule fires at the latest.
func (r *rule) atMost(t testing.TB, evaluated time.Duration) time.Duration {
	t.Helper()
	text, seen := r.symptom(), scrapeEvery
	switch {
	case counted.MatchString(text):
		seen += 30 * time.Second
	case probed.MatchString(text):
		seen += 5 * time.Second
	}
	if strings.Contains(text, ":card_gateway_") {
		seen += 5 * time.Second // TestArithmetic checks the interval of the group
	}
	since := r.sinceFault(t)
	if strings.Contains(text, "time() - ") { // it needs no scrape to pass
		return max(seen, since) + evaluated
	}
	return seen + since + evaluated + r.wait(t)
}

// wait returns the rule's for.
func (r *rule) wait(t testing.TB) time.Duration {
	t.Helper()
	if r.For == "" {
		return 0
	}
	d, err := time.ParseDuration(r.For)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fastAlerts returns how late each alert may be that is not for a trickle, and for
// NAME/slow what is promised.
func fastAlerts(t testing.TB) map[string]time.Duration {
	t.Helper()
	all := make(map[string]time.Duration)
	for _, group := range readRules(t, "alerts.yml") {
		every, err := time.ParseDuration(group.Interval)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range group.Rules {
			if r.Labels["burn"] == "" {
				all[r.Alert] = r.atMost(t, every)
			} else {
				all[r.Alert+"/slow"] = promisedSlow
			}
		}
	}
	return all
}

// TestArithmetic requires that each alert fires within two minutes of a full
// outage, by the rules alone, and that every fault of the table has such an alert.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	all := fastAlerts(t)
	for name, late := range all {
		t.Logf("%s: at most %v", name, late)
		if want := (&fault{alert: name}).promise(); late > want {
			t.Errorf("%s may fire %v after a fault, want at most %v", name, late, want)
		}
	}
	for _, f := range faults {
		if _, known := all[f.alert]; f.alert != "" && !known {
			t.Errorf("%s: %s is not an alert of ops/alerts.yml", f.name, f.alert)
		}
	}
	for _, group := range readRules(t, "recording.yml") {
		if group.Name == "card_gateway_now" && group.Interval != "5s" {
			t.Errorf("the series that alerts wait for are recorded every %s, want 5s", group.Interval)
		}
	}
}
