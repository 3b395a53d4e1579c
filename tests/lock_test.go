package tests

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// forged returns requests with a wrong signature.
func (c credentials) forged(n int) []*request {
	all := make([]*request, n)
	for i := range all {
		all[i] = c.get().forge()
	}
	return all
}

// series sends requests one after the other.
func (g *gateway) series(t testing.TB, requests []*request) []*response {
	t.Helper()
	w := g.connect(t)
	defer w.Close()
	answers := make([]*response, len(requests))
	for i, r := range requests {
		answer, err := w.exchange(r)
		if err != nil {
			t.Fatal(err)
		}
		answers[i] = answer
	}
	return answers
}

func wantMessages(t testing.TB, what string, got, want map[string]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: answers are %v, want %v", what, got, want)
	}
}

// TestLock goes through the life of a lock: 50 failures with their own
// message, one that says locked, then disabled; through a reload and kills.
func TestLock(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	reload := func() { s := g.site; s.global += "\n"; g.reload(s) }
	restart := func() { g.kill(); g.start() }

	wantMessages(t, "first", messages(g.series(t, key.forged(20))), map[string]int{wrongSignature: 20})
	reload()
	g.wantFailures(t, key, 20)
	wantMessages(t, "after a reload", messages(g.series(t, key.forged(20))), map[string]int{wrongSignature: 20})
	restart()
	g.wantFailures(t, key, 40)
	wantMessages(t, "after a kill", messages(g.series(t, key.forged(10))), map[string]int{wrongSignature: 10})
	restart()
	g.wantFailures(t, key, 50)
	if got := g.show(key).Status; got != "active" {
		t.Errorf("the status before the announced lock is %s", got)
	}

	// The next request is told, even a good one, and locks the key for good.
	unauthorized(t, g.send(t, key.get()), keyLocked)
	unauthorized(t, g.send(t, key.get()), keyDisabled)
	unauthorized(t, g.send(t, key.get().forge()), keyDisabled)
	for _, again := range []func(){reload, restart} {
		again()
		unauthorized(t, g.send(t, key.get()), keyDisabled)
	}
	view := g.show(key)
	if view.Status != "locked" || view.Failures != 0 || string(view.Lock) == "null" {
		t.Errorf("the record of the locked key says %+v", view)
	}
	u.none(t)

	g.do(key, "enable") // clears `disabled` only
	unauthorized(t, g.send(t, key.get()), keyDisabled)
	g.do(key, "unlock")
	accepted(t, g.send(t, key.get()))
	g.do(key, "disable")
	g.do(key, "unlock") // clears the lock only
	unauthorized(t, g.send(t, key.get()), keyDisabled)
	g.do(key, "enable")
	accepted(t, g.send(t, key.get()))
}

// TestLockSurvivesItsAnnouncement kills the process right behind the answer
// that announces the lock.
func TestLockSurvivesItsAnnouncement(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, global: "lock_after 3"})
	key := g.newKey(nil)
	g.series(t, key.forged(3))
	unauthorized(t, g.send(t, key.get()), keyLocked)
	g.kill()
	g.start()
	unauthorized(t, g.send(t, key.get()), keyDisabled)
	g.do(key, "unlock")
	g.kill()
	g.start()
	accepted(t, g.send(t, key.get()))
}

// TestFailuresAtOnce sends failures at the same instant: none is lost, none is
// counted twice.
func TestFailuresAtOnce(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	for _, c := range []struct {
		lockAfter, failures int
		want                map[string]int
	}{
		{100, 64, map[string]int{wrongSignature: 64}},
		{50, 0, map[string]int{wrongSignature: 50, keyLocked: 1, keyDisabled: 13}},
	} {
		g := startGateway(t, site{upstream: u.addr, global: fmt.Sprintf("lock_after %d", c.lockAfter)})
		key := g.newKey(nil)
		what := fmt.Sprintf("64 failures under lock_after %d", c.lockAfter)
		wantMessages(t, what, messages(g.atOnce(t, key.forged(64))), c.want)
		g.wantFailures(t, key, c.failures)
	}
	u.none(t)
}

// TestWhatCounts sends each kind of refusal and checks the count.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	for _, c := range []struct {
		lockCounts                             string
		late, repeated, outside, outsideForged int
	}{
		{"", 0, 0, 0, 0},
		{"lock_counts timestamp", 1, 0, 0, 0},
		{"lock_counts nonce", 0, 1, 0, 0},
		{"lock_counts ip", 0, 0, 1, 1},
		{"lock_counts ip timestamp nonce", 1, 1, 1, 1},
	} {
		g := startGateway(t, site{upstream: u.addr, global: c.lockCounts})
		key := g.newKey(fields{"scopes": []string{"cards:*"}, "allowed_ips": []string{"127.0.0.1"}})
		hour := time.Now().Add(-time.Hour)
		for _, step := range []struct {
			name    string
			r       *request
			message string
			count   int
		}{
			{"late", key.requestAt(hour, "GET", "/api/v1/cards/c1", ""), outsideWindow, c.late},
			{"late and forged", key.requestAt(hour, "GET", "/api/v1/cards/c1", "").forge(), outsideWindow, 1},
			{"malformed time", key.get().set("X-Timestamp", "now").sign(key.secret), outsideWindow, c.late},
			{"outside", key.get().from("127.0.0.2"), ipNotAllowed, c.outside},
			{"outside and forged", key.get().forge().from("127.0.0.2"), ipNotAllowed, c.outsideForged},
			{"another body", key.post().set("X-Body-Hash", bodyHash("")).sign(key.secret), bodyMismatch, 1},
			{"forged", key.get().forge(), wrongSignature, 1},
			{"missing header", key.get().drop("X-Nonce"), missingHeaders, 0},
			{"bad target", key.request("GET", "/api/v1/cards//", ""), "-", 0},
			{"no scope", key.request("GET", "/api/v1/orders", ""), "-", 0},
		} {
			before := g.show(key).Failures
			answer := g.send(t, step.r)
			if step.message != "-" {
				unauthorized(t, answer, step.message)
			}
			g.wantFailures(t, key, before+step.count)
			if t.Failed() {
				t.Fatalf("%q, %s", c.lockCounts, step.name)
			}
		}
		u.none(t)

		// An accepted request resets the count, its repetition raises it only
		// where that was asked for.
		r := key.get()
		accepted(t, g.send(t, r))
		g.wantFailures(t, key, 0)
		unauthorized(t, g.send(t, r), replayed)
		g.wantFailures(t, key, c.repeated)
		unauthorized(t, g.send(t, r.forge()), replayed)
		g.wantFailures(t, key, c.repeated+1)
		u.one(t)
	}
}

// TestStrangersCannotLock sends 1,000 bad requests from outside a whitelist.
func TestStrangersCannotLock(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, servers: "trusted_proxies static 127.0.0.1/32\ntrusted_proxies_strict"})
	key := g.newKey(fields{"allowed_ips": []string{"203.0.113.7", "2001:db8::/32"}})
	bad := key.forged(1000)
	for _, r := range bad {
		r.add("X-Forwarded-For", "198.51.100.9")
	}
	wantMessages(t, "from outside", messages(g.series(t, bad)), map[string]int{ipNotAllowed: 1000})
	g.wantFailures(t, key, 0)
	for from, message := range map[string]string{
		"203.0.113.7":               "",
		"::ffff:203.0.113.7":        "",
		"2001:db8::7":               "",
		"198.51.100.9, 203.0.113.7": "",
		"203.0.113.7, 198.51.100.9": ipNotAllowed, // what the client wrote itself is not believed
		"203.0.113.8":               ipNotAllowed,
		"2001:db9::7":               ipNotAllowed,
		"203.0.113.7:51234":         "",
		"[2001:db8::7]:443":         "",
		"::ffff:cb00:7107":          "",
	} {
		unauthorized(t, g.send(t, key.get().add("X-Forwarded-For", from)), message)
		if t.Failed() {
			t.Fatalf("X-Forwarded-For: %s", from)
		}
	}
	for _, unreadable := range []string{"unknown", "[203.0.113.7", "203.0.113.7, unknown", "203.0.113.7%eth0", "::1%" + strings.Repeat("a", 4000)} {
		refused(t, g.send(t, key.get().add("X-Forwarded-For", unreadable)), http.StatusBadRequest, "BAD_REQUEST")
	}
	// Whoever is no trusted proxy is the client.
	unauthorized(t, g.send(t, key.get().from("127.0.0.2").add("X-Forwarded-For", "203.0.113.7")), ipNotAllowed)
}

// TestLockDuration lets a lock end by itself.
func TestLockDuration(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, global: "lock_after 2\nlock_duration 3s"})
	key := g.newKey(nil)
	g.series(t, key.forged(2))
	unauthorized(t, g.send(t, key.get()), keyLocked)
	unauthorized(t, g.send(t, key.get()), keyDisabled)
	if got := g.show(key).Status; got != "locked" {
		t.Errorf("the status is %s, want locked", got)
	}
	eventually(t, "the lock ended", func() bool { return g.send(t, key.get()).status == http.StatusOK })
	if got := g.show(key).Status; got != "active" {
		t.Errorf("the status after the lock is %s, want active", got)
	}
	unauthorized(t, g.send(t, key.get().forge()), wrongSignature)
	g.wantFailures(t, key, 1)
}
