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
	u := StartUpstream(t)
	g := StartGateway(t, Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	for _, r := range []*Request{key.Get(), key.Post(), key.Request(http.MethodDelete, "/api/v1/orders/1", "")} {
		copies := make([]*Request, 64)
		for i := range copies {
			copies[i] = r
		}
		got := Messages(g.AtOnce(t, copies))
		if got[""] != 1 || got[Replayed] != 63 {
			t.Errorf("of 64 copies of %s the answers are %v, want 1 accepted and 63 replays", r.Method, got)
		}
		u.One(t)
	}
	g.WantFailures(t, key, 0)
}

// TestNonceIsRecordedLast checks that only a request that passes everything
// spends its nonce, and that nonces belong to their key.
func TestNonceIsRecordedLast(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	g := StartGateway(t, Site{Upstream: u.Addr, Limits: WithLimits, Global: "limit get_card 1/1d"})
	victim := g.NewKey(Fields{"scopes": []string{"cards:read", "cards:write"}})

	r := victim.Post()
	forged := &Request{Method: r.Method, Target: r.Target, Body: r.Body, Headers: append([]string(nil), r.Headers...)}
	WantUnauthorized(t, g.Send(t, forged.Forge()), WrongSignature)
	forged.Body += " "
	WantUnauthorized(t, g.Send(t, forged), BodyMismatch)
	WantAccepted(t, g.Send(t, r))
	WantUnauthorized(t, g.Send(t, r), Replayed)

	other := g.NewKey(nil)
	WantAccepted(t, g.Send(t, other.Post().Set("X-Nonce", r.Value("X-Nonce")).Sign(other.Secret)))

	// A 403 and a 429 record nothing, so that the request may come again.
	late := victim.Request(http.MethodGet, "/api/v1/transactions", "")
	WantRefused(t, g.Send(t, late), http.StatusForbidden, "FORBIDDEN")
	g.Change(victim, Fields{"scopes": []string{"*"}})
	WantAccepted(t, g.Send(t, late))
	WantUnauthorized(t, g.Send(t, late), Replayed)

	WantAccepted(t, g.Send(t, victim.Get()))
	over := victim.Get()
	WantRefused(t, g.Send(t, over), http.StatusTooManyRequests, "RATE_LIMITED")
	g.Change(victim, Fields{"limits": Fields{"get_card": "9/1d"}})
	WantAccepted(t, g.Send(t, over))
	WantUnauthorized(t, g.Send(t, over), Replayed)
}

// TestReplayAfterRestart repeats requests after a reload, after a kill and
// after an orderly stop.
func TestReplayAfterRestart(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	g := StartGateway(t, Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	ahead := key.RequestAt(time.Now().Add(299*time.Second), http.MethodGet, "/api/v1/cards/ahead", "")
	behind := key.RequestAt(time.Now().Add(-200*time.Second), http.MethodGet, "/api/v1/cards/behind", "")
	sent := []*Request{key.Get(), key.Post(), ahead, behind}
	for _, r := range sent {
		WantAccepted(t, g.Send(t, r))
	}
	u.Took()
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"at once", func() {}},
		{"reload", func() { s := g.Site; s.Global = "lock_after 49"; g.Reload(s) }},
		{"kill", func() { g.Kill(); g.Start() }},
		{"stop", func() { g.Stop(); g.Start() }},
		{"kill again", func() { g.Kill(); g.Start() }},
	} {
		step.do()
		for _, r := range sent {
			WantUnauthorized(t, g.Send(t, r), Replayed)
		}
		r := key.Get()
		WantAccepted(t, g.Send(t, r))
		u.One(t)
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
	u := StartUpstream(t)
	g := StartGateway(t, Site{Upstream: u.Addr, Global: "window 2s\nreplay_floor_ahead 1s", Auth: "body_timeout 2s"})
	key := g.NewKey(nil)
	earlyInASecond()
	start := time.Now()
	r := key.RequestAt(start.Add(-2*time.Second), http.MethodPost, "/api/v1/cards", `{"productId":"p1"}`)
	w := g.Connect(t)
	w.WriteText(t, r.Head()+r.Body[:5])
	// The window is measured in whole seconds: it ends with this one.
	time.Sleep(time.Until(start.Truncate(time.Second).Add(1050 * time.Millisecond)))
	w.WriteText(t, r.Body[5:])
	answer, err := w.Receive(r.Method)
	if err != nil {
		t.Fatal(err)
	}
	WantUnauthorized(t, answer, OutsideWindow)
	u.None(t)
	if conns, bytes := u.Traffic(); conns+bytes > 0 {
		t.Errorf("the upstream saw %d connections and %d bytes", conns, bytes)
	}
	g.WantFailures(t, key, 0)
}

// TestBodyDeadline lets a body stop before its end.
func TestBodyDeadline(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	g := StartGateway(t, Site{Upstream: u.Addr, Auth: "body_timeout 200ms"})
	key := g.NewKey(nil)
	for name, r := range map[string]*Request{"signed": key.Post(), "forged": key.Post().Forge()} {
		w := g.Connect(t)
		w.WriteText(t, r.Head()+r.Body[:5])
		answer, err := w.Receive(r.Method)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		WantRefused(t, answer, http.StatusRequestTimeout, "REQUEST_TIMEOUT")
		if _, err := w.Receive(r.Method); err == nil {
			t.Errorf("%s: the connection is used on after a body that was cut", name)
		}
	}
	// Whoever drips bytes gains nothing: the deadline is for the whole body.
	r := key.Post()
	w := g.Connect(t)
	w.WriteText(t, r.Head())
	dripped := time.NewTicker(50 * time.Millisecond)
	defer dripped.Stop()
	start := time.Now()
	for i := 0; time.Since(start) < 400*time.Millisecond; i++ {
		<-dripped.C
		if _, err := fmt.Fprint(w, r.Body[i:i+1]); err != nil {
			break
		}
	}
	answer, err := w.Receive(r.Method)
	if err != nil {
		t.Fatal(err)
	}
	WantRefused(t, answer, http.StatusRequestTimeout, "REQUEST_TIMEOUT")
	u.None(t)
	g.WantFailures(t, key, 0)
}

// TestNothingBeforeTheBodyIsVerified watches the upstream while a correctly
// signed body arrives, and while one arrives that turns out wrong.
func TestNothingBeforeTheBodyIsVerified(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	g := StartGateway(t, Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	body := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	for _, c := range []struct {
		name, end string
		message   string
	}{
		{"wrong in its last byte", "]", BodyMismatch},
		{"right", "}", ""},
	} {
		r := key.Request(http.MethodPost, "/api/v1/cards", body)
		w := g.Connect(t)
		w.WriteText(t, r.Head()+body[:len(body)-1])
		// A second request that is answered shows that the first was worked on.
		WantUnauthorized(t, g.Send(t, key.Post().Forge()), WrongSignature)
		if conns, bytes := u.Traffic(); conns+bytes > 0 {
			t.Fatalf("%s: the upstream saw %d connections and %d bytes before the end of the body", c.name, conns, bytes)
		}
		w.WriteText(t, c.end)
		answer, err := w.Receive(r.Method)
		if err != nil {
			t.Fatal(err)
		}
		WantUnauthorized(t, answer, c.message)
	}
	if r := u.One(t); r.Body != body {
		t.Errorf("the upstream received a body of %d bytes, want %d", len(r.Body), len(body))
	}
}
