package tests

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	refusedWithin  = 250 * time.Millisecond // 503, whatever is the matter with Redis
	refusedAtOnce  = 5 * time.Millisecond   // 503, once the circuit breaker is open
	recoversWithin = 3 * time.Second        // after Redis is back
	floorAhead     = time.Second            // replay_floor_ahead in these tests
)

// outageSite has the timeouts that are the default, and refuses little after
// state may have been lost, so that tests need not wait.
func outageSite(u *upstream, r *redisServer) site {
	return site{upstream: u.addr, store: "redis " + r.url(), limits: withLimits, global: "replay_floor_ahead 1s\nlimit default 1000000/1d"}
}

// wantOutage checks the answers to what was sent while Redis was gone: 200 or
// 503, in time. What else is allowed is named.
func (l *redisLoad) wantOutage(sent []exchanged, also ...string) {
	l.t.Helper()
	_, hiccup := l.machine()
	for _, e := range sent {
		if e.answer.status == http.StatusOK || len(also) == 1 && messages([]*response{e.answer})[also[0]] == 1 {
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

func wantUnavailable(t testing.TB, answer *response) {
	t.Helper()
	refused(t, answer, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if answer.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After of %s is %q, want 1", answer, answer.header.Get("Retry-After"))
	}
}

// wantAtOnce checks that refusals cost next to nothing once the circuit
// breakers of all gateways are open.
func (l *redisLoad) wantAtOnce() {
	l.t.Helper()
	for _, g := range l.gateways {
		g.logged("default.log", "circuit breaker", `"to":"open"`)
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
	u := startUpstream(t)
	r := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	a, b := startPair(t, r, outageSite(u, r))
	key := a.newKey(nil)
	l := startLoad(t, key, a, b)
	l.enough(time.Now(), http.StatusOK)
	r.kill()
	l.wantAtOnce()
	for _, g := range l.gateways {
		wantNotReady(t, g, "the store cannot answer")
	}
	r.start()
	l.flows(time.Now(), recoversWithin+floorAhead+time.Second) // stamps are whole seconds
	sent := l.finish()
	l.wantOutage(sent, nonceLost)
	wantOnce(t, u, l.gateways, sent)
	a.wantFailures(t, key, 0)
}

// TestRedisStalled stops Redis for a while. Nothing is lost, so nothing is
// refused that should pass.
func TestRedisStalled(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	r := startRedis(t)
	a, b := startPair(t, r, outageSite(u, r))
	l := startLoad(t, a.newKey(nil), a, b)
	l.enough(time.Now(), http.StatusOK)
	r.signal(syscall.SIGSTOP)
	l.wantAtOnce()
	r.signal(syscall.SIGCONT)
	l.flows(time.Now(), recoversWithin)
	sent := l.finish()
	l.wantOutage(sent)
	wantOnce(t, u, l.gateways, sent)
}

// TestRedisScriptFlush makes Redis forget the scripts under load.
func TestRedisScriptFlush(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	r := startRedis(t)
	a, b := startPair(t, r, site{upstream: u.addr})
	l := startLoad(t, a.newKey(nil), a, b)
	for range 30 {
		l.enough(time.Now(), http.StatusOK)
		r.do("script", "flush")
	}
	sent := l.finish()
	if got := l.statuses(sent); got[http.StatusOK] != len(sent) {
		t.Errorf("the answers are %v, want none but 200", got)
	}
	wantOnce(t, u, l.gateways, sent)
}

func (l *redisLoad) statuses(sent []exchanged) map[int]int {
	answers := make([]*response, len(sent))
	for i := range sent {
		answers[i] = sent[i].answer
	}
	return count(answers)
}

// TestRedisLosesEverything kills a Redis that keeps nothing. Until the keys
// are there again, no key that existed is called unknown.
func TestRedisLosesEverything(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	r := startRedis(t)
	a, b := startPair(t, r, outageSite(u, r))
	made, other := a.newKey(nil), a.newKey(nil)
	accepted(t, a.send(t, other.get()))
	u.took()
	l := startLoad(t, made, a, b)
	l.enough(time.Now(), http.StatusOK)
	r.kill()
	l.enough(time.Now(), http.StatusServiceUnavailable)
	r.start()
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
	a.importKey(made, nil)
	l.flows(time.Now(), recoversWithin+floorAhead+time.Second)
	sent := l.finish()
	l.wantOutage(sent, nonceLost)
	wantOnce(t, u, l.gateways, sent)
	for _, g := range l.gateways { // one key is there again, the other is not
		wantUnavailable(t, g.send(t, other.get()))
	}
	b.importKey(other, nil)
	for _, g := range l.gateways { // the key that checks ids was lost, too
		g.kill()
		g.start()
	}
	for _, g := range l.gateways {
		accepted(t, g.send(t, made.get()))
		accepted(t, g.send(t, other.requestAt(time.Now().Add(2*floorAhead), http.MethodGet, "/api/v1/cards/c1", "")))
		accepted(t, b.send(t, g.newKey(nil).get()))
	}
}

// wantNotReady waits until /readyz refuses and says why.
func wantNotReady(t testing.TB, g *gateway, part string) {
	t.Helper()
	answer := new(response)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("/readyz said %s", answer)
		}
	})
	eventually(t, "/readyz says that "+part, func() bool {
		answer = g.send(t, &request{method: "GET", target: "/readyz"})
		var body struct{ Status, Reason string }
		err := json.Unmarshal([]byte(answer.body), &body)
		return err == nil && answer.status == http.StatusServiceUnavailable && body.Status == "not ready" && strings.Contains(body.Reason, part)
	})
}
