package tests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestCopiesAtOnce sends 64 copies of one request at the same instant.
func TestCopiesAtOnce(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for _, r := range []*request{key.get(), key.post(), key.request(http.MethodDelete, "/api/v1/orders/1", "")} {
		copies := make([]*request, 64)
		for i := range copies {
			copies[i] = r
		}
		got := messages(g.atOnce(t, copies))
		if got[""] != 1 || got[replayed] != 63 {
			t.Errorf("of 64 copies of %s the answers are %v, want 1 accepted and 63 replays", r.method, got)
		}
		u.one(t)
	}
	g.wantFailures(t, key, 0)
}

// TestNonceIsRecordedLast checks that only a request that passes everything
// spends its nonce, and that nonces belong to their key.
func TestNonceIsRecordedLast(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, limits: withLimits, global: "limit get_card 1/1d"})
	victim := g.newKey(fields{"scopes": []string{"cards:read", "cards:write"}})

	r := victim.post()
	forged := &request{method: r.method, target: r.target, body: r.body, headers: append([]string(nil), r.headers...)}
	unauthorized(t, g.send(t, forged.forge()), wrongSignature)
	forged.body += " "
	unauthorized(t, g.send(t, forged), bodyMismatch)
	accepted(t, g.send(t, r))
	unauthorized(t, g.send(t, r), replayed)

	other := g.newKey(nil)
	accepted(t, g.send(t, other.post().set("X-Nonce", r.value("X-Nonce")).sign(other.secret)))

	// A 403 and a 429 record nothing, so that the request may come again.
	late := victim.request(http.MethodGet, "/api/v1/transactions", "")
	refused(t, g.send(t, late), http.StatusForbidden, "FORBIDDEN")
	g.change(victim, fields{"scopes": []string{"*"}})
	accepted(t, g.send(t, late))
	unauthorized(t, g.send(t, late), replayed)

	accepted(t, g.send(t, victim.get()))
	over := victim.get()
	refused(t, g.send(t, over), http.StatusTooManyRequests, "RATE_LIMITED")
	g.change(victim, fields{"limits": fields{"get_card": "9/1d"}})
	accepted(t, g.send(t, over))
	unauthorized(t, g.send(t, over), replayed)
}

// TestReplayAfterRestart repeats requests after a reload, after a kill and
// after an orderly stop.
func TestReplayAfterRestart(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	ahead := key.requestAt(time.Now().Add(299*time.Second), http.MethodGet, "/api/v1/cards/ahead", "")
	behind := key.requestAt(time.Now().Add(-200*time.Second), http.MethodGet, "/api/v1/cards/behind", "")
	sent := []*request{key.get(), key.post(), ahead, behind}
	for _, r := range sent {
		accepted(t, g.send(t, r))
	}
	u.took()
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"at once", func() {}},
		{"reload", func() { s := g.site; s.global = "lock_after 49"; g.reload(s) }},
		{"kill", func() { g.kill(); g.start() }},
		{"stop", func() { g.stop(); g.start() }},
		{"kill again", func() { g.kill(); g.start() }},
	} {
		step.do()
		for _, r := range sent {
			unauthorized(t, g.send(t, r), replayed)
		}
		r := key.get()
		accepted(t, g.send(t, r))
		u.one(t)
		sent = append(sent, r)
		if t.Failed() {
			t.Fatalf("after: %s", step.name)
		}
	}
}

// TestSlowBodyCannotOutliveItsNonce sends a body that ends after the
// timestamp has left the window.
func TestSlowBodyCannotOutliveItsNonce(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, global: "window 2s\nreplay_floor_ahead 1s", auth: "body_timeout 2s"})
	key := g.newKey(nil)
	earlyInASecond()
	start := time.Now()
	r := key.requestAt(start.Add(-2*time.Second), http.MethodPost, "/api/v1/cards", `{"productId":"p1"}`)
	w := g.connect(t)
	w.write(t, r.head()+r.body[:5])
	// The window is measured in whole seconds: it ends with this one.
	time.Sleep(time.Until(start.Truncate(time.Second).Add(1050 * time.Millisecond)))
	w.write(t, r.body[5:])
	answer, err := w.receive(r.method)
	if err != nil {
		t.Fatal(err)
	}
	unauthorized(t, answer, outsideWindow)
	u.none(t)
	if conns, bytes := u.traffic(); conns+bytes > 0 {
		t.Errorf("the upstream saw %d connections and %d bytes", conns, bytes)
	}
	g.wantFailures(t, key, 0)
}

// TestBodyDeadline lets a body stop before its end.
func TestBodyDeadline(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, auth: "body_timeout 200ms"})
	key := g.newKey(nil)
	for name, r := range map[string]*request{"signed": key.post(), "forged": key.post().forge()} {
		w := g.connect(t)
		w.write(t, r.head()+r.body[:5])
		answer, err := w.receive(r.method)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		refused(t, answer, http.StatusRequestTimeout, "REQUEST_TIMEOUT")
		if _, err := w.receive(r.method); err == nil {
			t.Errorf("%s: the connection is used on after a body that was cut", name)
		}
	}
	// Whoever drips bytes gains nothing: the deadline is for the whole body.
	r := key.post()
	w := g.connect(t)
	w.write(t, r.head())
	dripped := time.NewTicker(50 * time.Millisecond)
	defer dripped.Stop()
	start := time.Now()
	for i := 0; time.Since(start) < 400*time.Millisecond; i++ {
		<-dripped.C
		if _, err := fmt.Fprint(w, r.body[i:i+1]); err != nil {
			break
		}
	}
	answer, err := w.receive(r.method)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, answer, http.StatusRequestTimeout, "REQUEST_TIMEOUT")
	u.none(t)
	g.wantFailures(t, key, 0)
}

// TestNothingBeforeTheBodyIsVerified watches the upstream while a correctly
// signed body arrives, and while one arrives that turns out wrong.
func TestNothingBeforeTheBodyIsVerified(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	body := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	for _, c := range []struct {
		name, end string
		message   string
	}{
		{"wrong in its last byte", "]", bodyMismatch},
		{"right", "}", ""},
	} {
		r := key.request(http.MethodPost, "/api/v1/cards", body)
		w := g.connect(t)
		w.write(t, r.head()+body[:len(body)-1])
		// A second request that is answered shows that the first was worked on.
		unauthorized(t, g.send(t, key.post().forge()), wrongSignature)
		if conns, bytes := u.traffic(); conns+bytes > 0 {
			t.Fatalf("%s: the upstream saw %d connections and %d bytes before the end of the body", c.name, conns, bytes)
		}
		w.write(t, c.end)
		answer, err := w.receive(r.method)
		if err != nil {
			t.Fatal(err)
		}
		unauthorized(t, answer, c.message)
	}
	if r := u.one(t); r.body != body {
		t.Errorf("the upstream received a body of %d bytes, want %d", len(r.body), len(body))
	}
}
