package request

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

func wantMessages(t testing.TB, what string, got, want map[string]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: answers are %v, want %v", what, got, want)
	}
}

// TestLock goes through the life of a lock: 50 failures with their own message,
// one with the message of the lock, then answers as for a disabled key.
// Meanwhile it reloads and kills the gateway.
func TestLock(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	reload := func() { s := g.Site; s.Global += "\n"; g.Reload(s) }
	restart := func() { g.Kill(); g.Start() }

	wantMessages(t, "first", harness.Messages(g.Series(t, key.Forged(20))), map[string]int{harness.WrongSignature: 20})
	reload()
	g.WantFailures(t, key, 20)
	wantMessages(t, "after a reload", harness.Messages(g.Series(t, key.Forged(20))), map[string]int{harness.WrongSignature: 20})
	restart()
	g.WantFailures(t, key, 40)
	wantMessages(t, "after a kill", harness.Messages(g.Series(t, key.Forged(10))), map[string]int{harness.WrongSignature: 10})
	restart()
	g.WantFailures(t, key, 50)
	if got := g.Show(key).Status; got != "active" {
		t.Errorf("the status before the announced lock is %s", got)
	}

	// The next request, even a correct one, gets the message of the lock and
	// locks the key.
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyLocked)
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	harness.WantUnauthorized(t, g.Send(t, key.Get().Forge()), harness.KeyDisabled)
	for _, again := range []func(){reload, restart} {
		again()
		harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	}
	view := g.Show(key)
	if view.Status != "locked" || view.Failures != 0 || string(view.Lock) == "null" {
		t.Errorf("the record of the locked key says %+v", view)
	}
	u.None(t)

	g.Do(key, "enable") // clears `disabled` only
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	g.Do(key, "unlock")
	harness.WantAccepted(t, g.Send(t, key.Get()))
	g.Do(key, "disable")
	g.Do(key, "unlock") // clears the lock only
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	g.Do(key, "enable")
	harness.WantAccepted(t, g.Send(t, key.Get()))
}

// TestLockSurvivesItsAnnouncement kills the process right after the answer that
// announces the lock.
func TestLockSurvivesItsAnnouncement(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "lock_after 3"})
	key := g.NewKey(nil)
	g.Series(t, key.Forged(3))
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyLocked)
	g.Kill()
	g.Start()
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	g.Do(key, "unlock")
	g.Kill()
	g.Start()
	harness.WantAccepted(t, g.Send(t, key.Get()))
}

// TestFailuresAtOnce sends failures at the same instant: none is lost, none is
// counted twice.
func TestFailuresAtOnce(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	for _, c := range []struct {
		lockAfter, failures int
		want                map[string]int
	}{
		{100, 64, map[string]int{harness.WrongSignature: 64}},
		{50, 0, map[string]int{harness.WrongSignature: 50, harness.KeyLocked: 1, harness.KeyDisabled: 13}},
	} {
		g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: fmt.Sprintf("lock_after %d", c.lockAfter)})
		key := g.NewKey(nil)
		what := fmt.Sprintf("64 failures under lock_after %d", c.lockAfter)
		wantMessages(t, what, harness.Messages(g.AtOnce(t, key.Forged(64))), c.want)
		g.WantFailures(t, key, c.failures)
	}
	u.None(t)
}

// TestWhatCounts sends each kind of refusal and checks the count.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
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
		g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: c.lockCounts})
		if warned := strings.Contains(g.ReadFile("default.log"), "lock_counts nonce locks clients"); warned != (c.repeated > 0) {
			t.Errorf("%q: warned at load: %t", c.lockCounts, warned)
		}
		key := g.NewKey(harness.Fields{"scopes": []string{"cards:*"}, "allowed_ips": []string{"127.0.0.1"}})
		hour := time.Now().Add(-time.Hour)
		for _, step := range []struct {
			name    string
			r       *harness.Request
			message string
			count   int
		}{
			{"late", key.RequestAt(hour, "GET", "/api/v1/cards/c1", ""), harness.OutsideWindow, c.late},
			{"late and forged", key.RequestAt(hour, "GET", "/api/v1/cards/c1", "").Forge(), harness.OutsideWindow, 1},
			{"malformed time", key.Get().Set("X-Timestamp", "now").Sign(key.Secret), harness.OutsideWindow, c.late},
			{"outside", key.Get().From("127.0.0.2"), harness.IPNotAllowed, c.outside},
			{"outside and forged", key.Get().Forge().From("127.0.0.2"), harness.IPNotAllowed, c.outsideForged},
			{"another body", key.Post().Set("X-Body-Hash", harness.BodyHash("")).Sign(key.Secret), harness.BodyMismatch, 1},
			{"forged", key.Get().Forge(), harness.WrongSignature, 1},
			{"missing header", key.Get().Drop("X-Nonce"), harness.MissingHeaders, 0},
			{"bad target", key.Request("GET", "/api/v1/cards//", ""), "-", 0},
			{"no scope", key.Request("GET", "/api/v1/orders", ""), "-", 0},
		} {
			before := g.Show(key).Failures
			answer := g.Send(t, step.r)
			if step.message != "-" {
				harness.WantUnauthorized(t, answer, step.message)
			}
			g.WantFailures(t, key, before+step.count)
			if t.Failed() {
				t.Fatalf("%q, %s", c.lockCounts, step.name)
			}
		}
		u.None(t)

		// An accepted request resets the count. Its repetition raises the count only
		// if lock_counts has nonce.
		r := key.Get()
		harness.WantAccepted(t, g.Send(t, r))
		g.WantFailures(t, key, 0)
		harness.WantUnauthorized(t, g.Send(t, r), harness.Replayed)
		g.WantFailures(t, key, c.repeated)
		harness.WantUnauthorized(t, g.Send(t, r.Forge()), harness.Replayed)
		g.WantFailures(t, key, c.repeated+1)
		u.One(t)
	}
}

// TestStrangersCannotLock sends 1,000 bad requests from outside a whitelist.
func TestStrangersCannotLock(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Servers: "trusted_proxies static 127.0.0.1/32\ntrusted_proxies_strict"})
	key := g.NewKey(harness.Fields{"allowed_ips": []string{"203.0.113.7", "2001:db8::/32"}})
	bad := key.Forged(1000)
	for _, r := range bad {
		r.Add("X-Forwarded-For", "198.51.100.9")
	}
	wantMessages(t, "from outside", harness.Messages(g.Series(t, bad)), map[string]int{harness.IPNotAllowed: 1000})
	g.WantFailures(t, key, 0)
	for from, message := range map[string]string{
		"203.0.113.7":               "",
		"::ffff:203.0.113.7":        "",
		"2001:db8::7":               "",
		"198.51.100.9, 203.0.113.7": "",
		"203.0.113.7, 198.51.100.9": harness.IPNotAllowed, // the client's own entry does not count
		"203.0.113.8":               harness.IPNotAllowed,
		"2001:db9::7":               harness.IPNotAllowed,
		"203.0.113.7:51234":         "",
		"[2001:db8::7]:443":         "",
		"::ffff:cb00:7107":          "",
	} {
		harness.WantUnauthorized(t, g.Send(t, key.Get().Add("X-Forwarded-For", from)), message)
		if t.Failed() {
			t.Fatalf("X-Forwarded-For: %s", from)
		}
	}
	for _, unreadable := range []string{"unknown", "[203.0.113.7", "203.0.113.7, unknown", "203.0.113.7%eth0", "::1%" + strings.Repeat("a", 4000)} {
		harness.WantRefused(t, g.Send(t, key.Get().Add("X-Forwarded-For", unreadable)), http.StatusBadRequest, "BAD_REQUEST")
	}
	// A sender that is not a trusted proxy is the client.
	harness.WantUnauthorized(t, g.Send(t, key.Get().From("127.0.0.2").Add("X-Forwarded-For", "203.0.113.7")), harness.IPNotAllowed)
}

// TestOneAddressCannotLockBusyKey: of a key that was accepted from another address, a
// stranger with one address adds half of the failures that lock it, also over a kill.
// Two strangers lock it, and so does the only address that the key is used from.
func TestOneAddressCannotLockBusyKey(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key, idle := g.NewKey(nil), g.NewKey(nil)
	from := func(key harness.Credentials, address string, n int) map[string]int {
		answers := make([]*harness.Response, n)
		for i, r := range key.Forged(n) {
			answers[i] = g.Send(t, r.From(address))
		}
		return harness.Messages(answers)
	}
	wrong := func(n int) map[string]int { return map[string]int{harness.WrongSignature: n} }
	locked := map[string]int{harness.WrongSignature: 50, harness.KeyLocked: 1, harness.KeyDisabled: 9}

	for range 3 {
		harness.WantAccepted(t, g.Send(t, key.Get()))
		g.WantFailures(t, key, 0)
		wantMessages(t, "a stranger", from(key, "127.0.0.2", 60), wrong(60))
		g.WantFailures(t, key, 25)
	}
	if metrics := g.Send(t, &harness.Request{Method: "GET", Target: "/metrics"}).Body; !strings.Contains(metrics, "card_gateway_uncounted_failures_total 105\n") {
		t.Error("not 105 failures are reported as not counted")
	}
	g.Kill()
	g.Start()
	wantMessages(t, "the stranger after a kill", from(key, "127.0.0.2", 60), wrong(60))
	g.WantFailures(t, key, 25)
	wantMessages(t, "the client's own failures", from(key, "127.0.0.1", 24), wrong(24))
	g.WantFailures(t, key, 49)
	harness.WantAccepted(t, g.Send(t, key.Get()))

	wantMessages(t, "a stranger again", from(key, "127.0.0.2", 60), wrong(60))
	wantMessages(t, "two strangers", from(key, "127.0.0.3", 35), map[string]int{harness.WrongSignature: 25, harness.KeyLocked: 1, harness.KeyDisabled: 9})
	g.Do(key, "unlock")
	harness.WantAccepted(t, g.Send(t, key.Get().From("127.0.0.4")))
	g.Do(key, "unlock")

	wantMessages(t, "a key that nobody uses", from(idle, "127.0.0.2", 60), locked)
	g.Do(idle, "unlock")
	harness.WantAccepted(t, g.Send(t, idle.Get()))
	wantMessages(t, "the address of its client", from(idle, "127.0.0.1", 60), locked)
}

// TestLockDuration has a lock that ends by itself, and one that does not end yet.
func TestLockDuration(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "lock_after 2\nlock_duration 1h"})
	key, locked := g.NewKey(nil), g.NewKey(nil)
	lock := func(key harness.Credentials) {
		t.Helper()
		g.Series(t, key.Forged(2))
		harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyLocked)
	}
	lock(locked)
	s := g.Site
	s.Global = "lock_after 2\nlock_duration 1s"
	g.Reload(s)
	lock(key)
	harness.Eventually(t, "the lock ended", func() bool { return g.Send(t, key.Get()).Status == http.StatusOK })
	if got := g.Show(key).Status; got != "active" {
		t.Errorf("the status after the lock is %s, want active", got)
	}
	harness.WantUnauthorized(t, g.Send(t, locked.Get()), harness.KeyDisabled)
	if got := g.Show(locked).Status; got != "locked" {
		t.Errorf("the status is %s, want locked", got)
	}
	harness.WantUnauthorized(t, g.Send(t, key.Get().Forge()), harness.WrongSignature)
	g.WantFailures(t, key, 1)
}
