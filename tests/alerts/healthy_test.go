package alerts

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestHealthy sends steady load to a gateway on an embedded store and to one on Redis
// for the time in CARD_TEST_ALERTS_HEALTHY, such as 1h, and requires that no alert
// fires, with the rules of ops/ as they are.
func TestHealthy(t *testing.T) {
	span, err := time.ParseDuration(os.Getenv("CARD_TEST_ALERTS_HEALTHY"))
	if err != nil {
		t.Skip("CARD_TEST_ALERTS_HEALTHY is how long, such as 1h")
	}
	for _, on := range []string{"", oneRedis} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := &scene{fault: &fault{on: on, alone: true}, t: t, every: 1, job: "card-gateway", target: filepath.Join(dir, "0.json"), struck: time.Now()}
			s.start()
			defer s.end()
			recording, _ := filepath.Abs("../../ops/recording.yml")
			alerts, _ := filepath.Abs("../../ops/alerts.yml")
			s.watch = harness.StartPrometheus(t, harness.PrometheusConfig(scrapeEvery, recording, alerts)+fmt.Sprintf(scrapes, filepath.Join(dir, "*.json")))
			defer s.steadyLoad().Stop()
			for time.Since(s.struck) < span {
				time.Sleep(time.Second) // the load itself
				s.issuer.Took()         // the test must not keep what it received
			}
			s.wantSilence(span)
		})
	}
}

// steadyLoad sends 100 requests a second with 20 keys, of which one in a hundred is
// refused.
func (s *scene) steadyLoad() *harness.Load {
	keys := make([]harness.Credentials, 20)
	for i := range keys {
		keys[i] = s.nodes[0].NewKey(nil)
	}
	tick := time.NewTicker(time.Second / 100)
	s.t.Cleanup(tick.Stop)
	return harness.StartLoad(8, func(_ int, number int64) {
		<-tick.C
		key := keys[number%int64(len(keys))]
		r := key.Get()
		switch number % 300 {
		case 1:
			r = r.Forge()
		case 101:
			r = r.Drop("X-Nonce")
		case 201:
			r = key.RequestAt(time.Now().Add(-time.Hour), http.MethodGet, r.Target, "")
		}
		if answer, err := s.nodes[0].Try(r); err == nil && answer.Status < 300 {
			s.accepted.Add(1)
		}
	})
}

// wantSilence requires that there was load, that the rules have seen it, and that
// no alert has fired in the last time.
func (s *scene) wantSilence(span time.Duration) {
	var seen struct{ Result []any }
	s.watch.Ask("query", url.Values{"query": {"job:card_gateway_requests:rate90s > 50"}}, &seen)
	if len(seen.Result) == 0 {
		s.t.Errorf("the rules see no load; %d requests were accepted", s.accepted.Load())
	}
	for name, after := range s.fired(span) {
		s.t.Errorf("%s has fired %v after the start; disturbances: %q", name, after, s.disturbed(1, span))
	}
	s.t.Logf("%d requests were accepted in %v", s.accepted.Load(), span)
}
