package redis

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// floorAhead is the value of replay_floor_ahead in these tests.
const floorAhead = time.Second

// outageSite refuses requests only for a short time after a possible loss, so
// that tests need not wait.
func outageSite(u *harness.Upstream, r *harness.RedisServer) harness.Site {
	return harness.Site{Upstream: u.Addr, Store: r.Patient(), Limits: harness.WithLimits, Global: "replay_floor_ahead 1s\nlimit default 1000000/1d\nlimit other 1000000/1d"}
}

// wantOutage checks the answers to requests that were sent while Redis was gone:
// 200 or 503, or one of the given statuses.
func (l *redisLoad) wantOutage(sent []exchanged, also ...string) {
	l.t.Helper()
	for _, e := range sent {
		if e.answer.Status == http.StatusOK || len(also) == 1 && harness.Messages([]*harness.Response{e.answer})[also[0]] == 1 {
			continue
		}
		if wantUnavailable(l.t, e.answer); l.t.Failed() {
			l.t.FailNow()
		}
	}
}

func wantUnavailable(t testing.TB, answer *harness.Response) {
	t.Helper()
	harness.WantRefused(t, answer, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if answer.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After of %s is %q, want 1", answer, answer.Header.Get("Retry-After"))
	}
}

// breaks waits until the circuit breakers of all gateways are open and requests
// are refused.
func (l *redisLoad) breaks() {
	l.t.Helper()
	for _, g := range l.gateways {
		g.Logged("default.log", "redis does not answer")
	}
	l.enough(time.Now(), http.StatusServiceUnavailable)
}

// TestRedisKilled kills Redis under load and starts it again with its data on the
// disk.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	a, b := startPair(t, r, outageSite(u, r))
	key := a.NewKey(nil)
	l := startLoad(t, key, a, b)
	l.enough(time.Now(), http.StatusOK)
	r.Kill()
	l.breaks()
	for _, g := range l.gateways {
		wantNotReady(t, g, "the store cannot answer")
	}
	r.Start()
	l.flows()
	sent := l.finish()
	l.wantOutage(sent, harness.NonceLost)
	wantOnce(t, u, l.gateways, sent)
	a.WantFailures(t, key, 0)
}

// TestRedisStalled stops Redis for a while, with the default timeouts. Nothing is
// lost, so no correct request is refused afterwards. When Redis continues, it
// executes the commands that it got meanwhile: the first failures and the trials
// of the breakers, but not the requests that were refused.
func TestRedisStalled(t *testing.T) {
	t.Parallel()
	const (
		failures = (5 + 1 + 1) * 3        // of three clients in the half second that opens a breaker, and one call of each before and after it
		pause    = 300 * time.Millisecond // of an open breaker before the next try
	)
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	s := outageSite(u, r)
	s.Store = "redis " + r.URL()
	a, b := startPair(t, r, s)
	l := startLoad(t, a.NewKey(nil), a, b)
	l.enough(time.Now(), http.StatusOK)
	begin, calls := time.Now(), r.ScriptCalls()
	r.Signal(syscall.SIGSTOP)
	for range 20 {
		l.breaks()
	}
	r.Signal(syscall.SIGCONT)
	l.flows()
	sent := l.finish()
	l.wantOutage(sent)
	refused := l.statuses(sent)[http.StatusServiceUnavailable]
	answered := l.statuses(l.since(begin))[http.StatusOK]
	lost := r.ScriptCalls() - calls - answered
	t.Logf("%d requests were refused; of those and of the census, redis was sent %d", refused, lost)
	if most := len(l.gateways) * (failures + 2 + int(time.Since(begin)/pause)); lost > most {
		t.Errorf("redis was sent %d calls that were not answered 200, want at most %d", lost, most)
	}
	wantOnce(t, u, l.gateways, sent)
}

// TestRedisScriptFlush makes Redis forget the scripts under load.
func TestRedisScriptFlush(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	a, b := startPair(t, r, harness.Site{Upstream: u.Addr})
	l := startLoad(t, a.NewKey(nil), a, b)
	for range 30 {
		l.enough(time.Now(), http.StatusOK)
		r.Do("script", "flush")
	}
	sent := l.finish()
	if got := l.statuses(sent); got[http.StatusOK] != len(sent) {
		t.Errorf("the answers are %v, want none but 200", got)
	}
	wantOnce(t, u, l.gateways, sent)
}

func (l *redisLoad) statuses(sent []exchanged) map[int]int {
	answers := make([]*harness.Response, len(sent))
	for i := range sent {
		answers[i] = sent[i].answer
	}
	return harness.Statuses(answers)
}

// TestRedisLosesEverything kills a Redis that stores nothing on the disk. Until
// the keys are present again, no key that existed is refused as unknown.
func TestRedisLosesEverything(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	a, b := startPair(t, r, outageSite(u, r))
	made, other := a.NewKey(nil), a.NewKey(nil)
	harness.WantAccepted(t, a.Send(t, other.Get()))
	u.Took()
	l := startLoad(t, made, a, b)
	l.enough(time.Now(), http.StatusOK)
	r.Kill()
	l.enough(time.Now(), http.StatusServiceUnavailable)
	r.Start()
	back := time.Now()
	for _, g := range l.gateways {
		wantNotReady(t, g, "redis was emptied")
	}
	l.enough(time.Now(), http.StatusServiceUnavailable)
	for _, e := range l.since(back) {
		wantUnavailable(t, e.answer)
	}
	if t.Failed() {
		t.FailNow()
	}
	a.ImportKey(made, nil)
	l.flows()
	sent := l.finish()
	l.wantOutage(sent, harness.NonceLost)
	wantOnce(t, u, l.gateways, sent)
	for _, g := range l.gateways { // one key exists again, the other does not
		wantUnavailable(t, g.Send(t, other.Get()))
	}
	b.ImportKey(other, nil)
	for _, g := range l.gateways { // the key that checks ids was lost, too
		g.Kill()
		g.Start()
	}
	for _, g := range l.gateways {
		harness.WantAccepted(t, g.Send(t, made.Get()))
		harness.WantAccepted(t, g.Send(t, other.RequestAt(time.Now().Add(2*floorAhead), http.MethodGet, "/api/v1/cards/c1", "")))
		harness.WantAccepted(t, b.Send(t, g.NewKey(nil).Get()))
	}
}

// wantNotReady waits until /readyz is 503 with the reason.
func wantNotReady(t testing.TB, g *harness.Gateway, part string) {
	t.Helper()
	answer := new(harness.Response)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("/readyz said %s", answer)
		}
	})
	harness.Eventually(t, "/readyz says that "+part, func() bool {
		answer = g.Send(t, &harness.Request{Method: "GET", Target: "/readyz"})
		var body struct{ Status, Reason string }
		err := json.Unmarshal([]byte(answer.Body), &body)
		return err == nil && answer.Status == http.StatusServiceUnavailable && body.Status == "not ready" && strings.Contains(body.Reason, part)
	})
}
