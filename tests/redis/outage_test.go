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

const (
	refusedWithin  = 250 * time.Millisecond // 503, whatever is the matter with Redis
	refusedAtOnce  = 5 * time.Millisecond   // 503, once the circuit breaker is open
	recoversWithin = 3 * time.Second        // after Redis is back
	floorAhead     = time.Second            // replay_floor_ahead in these tests
)

// outageSite has the timeouts that are the default, and refuses little after
// state may have been lost, so that tests need not wait.
func outageSite(u *harness.Upstream, r *harness.RedisServer) harness.Site {
	return harness.Site{Upstream: u.Addr, Store: "redis " + r.URL(), Limits: harness.WithLimits, Global: "replay_floor_ahead 1s\nlimit default 1000000/1d"}
}

// wantOutage checks the answers to what was sent while Redis was gone: 200 or
// 503, in time. What else is allowed is named.
func (l *redisLoad) wantOutage(sent []exchanged, also ...string) {
	l.t.Helper()
	_, hiccup := l.machine()
	for _, e := range sent {
		if e.answer.Status == http.StatusOK || len(also) == 1 && harness.Messages([]*harness.Response{e.answer})[also[0]] == 1 {
			continue
		}
		wantUnavailable(l.t, e.answer)
		if e.took > refusedWithin+hiccup {
			l.t.Errorf("503 took %v, while the machine took up to %v for nothing", e.took, hiccup)
		}
		if l.t.Failed() {
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

// wantAtOnce checks that refusals cost next to nothing once the circuit
// breakers of all gateways are open.
func (l *redisLoad) wantAtOnce() {
	l.t.Helper()
	for _, g := range l.gateways {
		g.Logged("default.log", "circuit breaker", `"to":"open"`)
	}
	opened := time.Now()
	l.enough(opened, http.StatusServiceUnavailable)
	var took []time.Duration
	for _, e := range l.since(opened) {
		took = append(took, e.took)
	}
	typical, _ := l.machine()
	if got := median(took); got > refusedAtOnce+typical {
		l.t.Errorf("with the breaker open, 503 takes %v, while the machine takes %v for nothing", got, typical)
	}
}

// TestRedisKilled kills Redis under load and starts it again with what it has
// kept on the disk.
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	a, b := startPair(t, r, outageSite(u, r))
	key := a.NewKey(nil)
	l := startLoad(t, key, a, b)
	l.enough(time.Now(), http.StatusOK)
	r.Kill()
	l.wantAtOnce()
	for _, g := range l.gateways {
		wantNotReady(t, g, "the store cannot answer")
	}
	r.Start()
	l.flows(time.Now(), recoversWithin+floorAhead+time.Second) // stamps are whole seconds
	sent := l.finish()
	l.wantOutage(sent, harness.OutsideWindow)
	wantOnce(t, u, l.gateways, sent)
	a.WantFailures(t, key, 0)
}

// TestRedisStalled stops Redis for a while. Nothing is lost, so nothing is
// refused that should pass.
func TestRedisStalled(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	a, b := startPair(t, r, outageSite(u, r))
	l := startLoad(t, a.NewKey(nil), a, b)
	l.enough(time.Now(), http.StatusOK)
	r.Signal(syscall.SIGSTOP)
	l.wantAtOnce()
	r.Signal(syscall.SIGCONT)
	l.flows(time.Now(), recoversWithin)
	sent := l.finish()
	l.wantOutage(sent)
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

// TestRedisLosesEverything kills a Redis that keeps nothing. Until the keys
// are there again, no key that existed is called unknown.
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
	l.flows(time.Now(), recoversWithin+floorAhead+time.Second)
	sent := l.finish()
	l.wantOutage(sent, harness.OutsideWindow)
	wantOnce(t, u, l.gateways, sent)
	for _, g := range l.gateways { // one key is there again, the other is not
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

// wantNotReady waits until /readyz refuses and says why.
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
