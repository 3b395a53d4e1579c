package alerts

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// How long a round takes, in the time of the rules: before the faults, with them,
// and after them. Alerts for a trickle wait up to five minutes and judge up to five,
// so nothing can begin to fire later. Longer ranges only keep an alert firing or
// silent.
const (
	before = 90 * time.Second
	during = 6*time.Minute + 30*time.Second
	after  = 5*time.Minute + 30*time.Second
)

// A result is what happened in one scene.
type result struct {
	*fault
	fired     map[string]time.Duration // NAME or NAME/slow: how long after the fault
	accepted  int64
	disturbed string // how the machine stood still meanwhile, or ""
}

// round injects all faults at the same time, each into a scene of its own, and
// ends them.
func round(t *testing.T, every scale, list []*fault) []result {
	t.Helper()
	scenes, untouched := everyScene(t, every, list), startControl(t)
	together(t, scenes, (*scene).start)
	watchAll(t, every, scenes)
	began := time.Now()
	time.Sleep(every.of(before))
	together(t, scenes, func(s *scene) {
		s.struck = time.Now()
		s.strike(s)
	})
	over := time.After(every.of(during))
	awaitAlerts(scenes)
	<-over
	together(t, scenes, func(s *scene) {
		for _, undo := range s.undo {
			undo()
		}
	})
	time.Sleep(every.of(after))
	results := make([]result, len(scenes))
	for i, s := range scenes {
		whole := time.Since(began)
		disturbed := append(s.disturbed(every, whole), untouched.disturbed()...)
		results[i] = result{s.fault, s.fired(whole), s.accepted.Load(), strings.Join(disturbed, ", ")}
		s.end()
	}
	return results
}

// together does something for all scenes, a few at a time.
func together(t *testing.T, scenes []*scene, do func(*scene)) {
	t.Helper()
	var all sync.WaitGroup
	free := make(chan struct{}, 4)
	for _, s := range scenes {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			do(s)
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// everyScene makes the scenes, each with a place in the directory of its Prometheus.
func everyScene(t *testing.T, every scale, list []*fault) []*scene {
	t.Helper()
	scenes := make([]*scene, len(list))
	shared := t.TempDir()
	for i, f := range list {
		s := &scene{fault: f, t: t, every: every, job: fmt.Sprint("card-gateway-", i), target: filepath.Join(shared, fmt.Sprint(i, ".json"))}
		if f.alone {
			s.job, s.target = "card-gateway", filepath.Join(t.TempDir(), "0.json")
		}
		scenes[i] = s
	}
	return scenes
}

// watchAll starts a Prometheus for all scenes but those that need one of their own.
// It comes last, because one that has nothing to scrape has an alert for that.
func watchAll(t *testing.T, every scale, scenes []*scene) {
	t.Helper()
	var shared *harness.Prometheus
	for _, s := range scenes {
		dir := filepath.Dir(s.target)
		switch {
		case s.alone:
			s.watch = startPrometheus(t, every, dir, `job="card-gateway"`)
		case shared == nil:
			shared = startPrometheus(t, every, dir, `job=~"card-gateway.*"`)
			fallthrough
		default:
			s.watch = shared
		}
	}
}

// scrapes are the jobs of a Prometheus that reads its targets from a directory.
const scrapes = `scrape_configs:
  - job_name: card-gateway
    file_sd_configs: [{files: [%q]}]
`

// kept are the operations of which there are requests, and the bounds that the rules
// name: a dozen others, all at zero, would be most of the work of a Prometheus with
// many gateways.
const kept = `    metric_relabel_configs:
      - {source_labels: [operation], regex: '|get_card|issue_card|create_customer|other', action: keep}
      - {source_labels: [outcome], regex: 'would_refuse_.+', action: drop}
      - {source_labels: [le], regex: '|-?(30|1)(\.0)?|\+Inf', action: keep}
`

// startPrometheus starts a Prometheus with the scaled rules. The job of the gateways
// is a pattern.
func startPrometheus(t *testing.T, every scale, dir, job string) *harness.Prometheus {
	t.Helper()
	recording, alerts := every.rules(t, "recording.yml", dir, job), every.rules(t, "alerts.yml", dir, job)
	config := harness.PrometheusConfig(every.of(scrapeEvery), recording, alerts) + fmt.Sprintf(scrapes, filepath.Join(dir, "*.json")) + kept
	return harness.StartPrometheus(t, config, "--query.lookback-delta="+every.of(lookBack).String())
}

// awaitAlerts waits until the alert of each fault fires. Its end is generous: it
// is not the machine that is tested.
func awaitAlerts(scenes []*scene) {
	for deadline := time.Now().Add(5 * harness.Patience); time.Now().Before(deadline); time.Sleep(time.Second) {
		waiting := slices.ContainsFunc(scenes, func(s *scene) bool {
			_, fires := s.fired(time.Since(s.struck))[s.alert]
			return s.alert != "" && !fires
		})
		if !waiting {
			return
		}
	}
}

// samples are those of one series in some time, oldest first: when and what.
type samples struct {
	Metric map[string]string
	Values [][2]any
}

func (s samples) at(i int) time.Time {
	seconds, _ := s.Values[i][0].(float64)
	return time.UnixMilli(int64(seconds * 1000))
}

// last returns the samples of the series of a selection in the last time.
func (s *scene) last(whole time.Duration, selection string) []samples {
	s.t.Helper()
	var data struct{ Result []samples }
	s.watch.Ask("query", url.Values{"query": {fmt.Sprintf("%s[%dms]", selection, max(whole.Milliseconds(), 1))}}, &data)
	return data.Result
}

// fired returns the alerts of the scene that have fired in the last time.
func (s *scene) fired(whole time.Duration) map[string]time.Duration {
	s.t.Helper()
	selection := fmt.Sprintf(`ALERTS{alertstate="firing",job=%q}`, s.job)
	if s.alone { // not every alert has a job
		selection = `ALERTS{alertstate="firing"}`
	}
	all := make(map[string]time.Duration)
	for _, series := range s.last(whole, selection) {
		name := series.Metric["alertname"]
		if burn := series.Metric["burn"]; burn != "" {
			name += "/" + burn
		}
		began := series.at(0).Sub(s.struck)
		if earlier, known := all[name]; !known || began < earlier {
			all[name] = began
		}
	}
	return all
}

// disturbed returns how clients, scrapes or rules stood still, because something
// else had the machine. A tenth of the two minutes is allowed.
func (s *scene) disturbed(every scale, whole time.Duration) (found []string) {
	s.t.Helper()
	const allowed = 12 * time.Second
	if late := time.Duration(s.late.Load()); late > beatEvery+every.of(allowed) {
		found = append(found, fmt.Sprintf("clients sent nothing for %v", late))
	}
	for _, series := range s.last(whole, evaluated) {
		interval := 10 * time.Second // the longest of those whose lateness matters
		if series.Metric["group"] == "card_gateway_usual" {
			continue
		}
		if gap := longest(series.gaps()); gap > every.of(interval+allowed) {
			found = append(found, fmt.Sprintf("%s was not evaluated for %v", series.Metric["group"], gap))
		}
	}
	for _, series := range s.last(whole, fmt.Sprintf("up{job=%q}", s.job)) {
		gaps := series.gaps()
		if s.alert == "CardGatewayMetricsAbsent" && len(gaps) > 0 {
			gaps = gaps[:len(gaps)-1] // the longest is the fault
		}
		if gap := longest(gaps); gap > every.of(scrapeEvery+allowed) {
			found = append(found, fmt.Sprintf("%s was not scraped for %v", series.Metric["instance"], gap))
		}
		missed := slices.ContainsFunc(series.Values, func(v [2]any) bool { return v[1] == "0" })
		if missed && s.alert != "CardGatewayDown" && s.alert != "CardGatewayCrashLoop" {
			found = append(found, series.Metric["instance"]+" did not answer a scrape")
		}
	}
	return found
}

// gaps returns the times between two samples, the longest last.
func (s samples) gaps() []time.Duration {
	all := make([]time.Duration, max(0, len(s.Values)-1))
	for i := range all {
		all[i] = s.at(i + 1).Sub(s.at(i))
	}
	slices.Sort(all)
	return all
}

// longest returns the last of sorted times, 0 if there is none.
func longest(sorted []time.Duration) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}
