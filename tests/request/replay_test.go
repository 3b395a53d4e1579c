package request

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestCopiesAtOnce sends 64 copies of one request at the same instant.
func TestCopiesAtOnce(t *testing.T) { harness.EachTerminal(t, testCopiesAtOnce) }

func testCopiesAtOnce(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	for _, r := range []*harness.Request{key.Get(), key.Post(), key.Request(http.MethodDelete, "/api/v1/orders/1", "")} {
		copies := make([]*harness.Request, 64)
		for i := range copies {
			copies[i] = r
		}
		got := harness.Messages(g.AtOnce(t, copies))
		if got[""] != 1 || got[harness.Replayed] != 63 {
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
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit get_card 1/1d"})
	victim := g.NewKey(harness.Fields{"scopes": []string{"cards:read", "cards:write"}})

	r := victim.Post()
	forged := &harness.Request{Method: r.Method, Target: r.Target, Body: r.Body, Headers: append([]string(nil), r.Headers...)}
	harness.WantUnauthorized(t, g.Send(t, forged.Forge()), harness.WrongSignature)
	forged.Body += " "
	harness.WantUnauthorized(t, g.Send(t, forged), harness.BodyMismatch)
	harness.WantAccepted(t, g.Send(t, r))
	harness.WantUnauthorized(t, g.Send(t, r), harness.Replayed)

	other := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, other.Post().Set("X-Nonce", r.Value("X-Nonce")).Sign(other.Secret)))

	// A 403 and a 429 record nothing, so that the request may be sent again.
	late := victim.Request(http.MethodGet, "/api/v1/transactions", "")
	harness.WantRefused(t, g.Send(t, late), http.StatusForbidden, "FORBIDDEN")
	g.Change(victim, harness.Fields{"scopes": []string{"*"}})
	harness.WantAccepted(t, g.Send(t, late))
	harness.WantUnauthorized(t, g.Send(t, late), harness.Replayed)

	harness.WantAccepted(t, g.Send(t, victim.Get()))
	over := victim.Get()
	harness.WantRefused(t, g.Send(t, over), http.StatusTooManyRequests, "RATE_LIMITED")
	g.Change(victim, harness.Fields{"limits": harness.Fields{"get_card": "9/1d"}})
	harness.WantAccepted(t, g.Send(t, over))
	harness.WantUnauthorized(t, g.Send(t, over), harness.Replayed)
}

// TestReplayAfterRestart repeats requests after a reload, after a kill and
// after an orderly stop.
func TestReplayAfterRestart(t *testing.T) { harness.EachTerminal(t, testReplayAfterRestart) }

func testReplayAfterRestart(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	ahead := key.RequestAt(time.Now().Add(299*time.Second), http.MethodGet, "/api/v1/cards/ahead", "")
	behind := key.RequestAt(time.Now().Add(-200*time.Second), http.MethodGet, "/api/v1/cards/behind", "")
	sent := []*harness.Request{key.Get(), key.Post(), ahead, behind}
	for _, r := range sent {
		harness.WantAccepted(t, g.Send(t, r))
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
			harness.WantUnauthorized(t, g.Send(t, r), harness.Replayed)
		}
		r := key.Get()
		harness.WantAccepted(t, g.Send(t, r))
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
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "window 10s\nreplay_floor_ahead 1s", Auth: "body_timeout 10s"})
	key := g.NewKey(nil)
	earlyInASecond()
	start := time.Now()
	r := key.RequestAt(start.Add(-10*time.Second), http.MethodPost, "/api/v1/cards", `{"productId":"p1"}`)
	w := g.Connect(t)
	w.WriteText(t, r.Head()+r.Body[:5])
	// The window is measured in whole seconds: it ends with this one.
	time.Sleep(time.Until(start.Truncate(time.Second).Add(1050 * time.Millisecond)))
	w.WriteText(t, r.Body[5:])
	answer, err := w.Receive(r.Method)
	if err != nil {
		t.Fatal(err)
	}
	harness.WantUnauthorized(t, answer, harness.OutsideWindow)
	u.None(t)
	if conns, bytes := u.Traffic(); conns+bytes > 0 {
		t.Errorf("the upstream saw %d connections and %d bytes", conns, bytes)
	}
	g.WantFailures(t, key, 0)
}

// TestBodyDeadline sends bodies that stop before their end.
func TestBodyDeadline(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Auth: "body_timeout 200ms"})
	key := g.NewKey(nil)
	for name, r := range map[string]*harness.Request{"signed": key.Post(), "forged": key.Post().Forge()} {
		w := g.Connect(t)
		w.WriteText(t, r.Head()+r.Body[:5])
		answer, err := w.Receive(r.Method)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		harness.WantRefused(t, answer, http.StatusRequestTimeout, "REQUEST_TIMEOUT")
		if _, err := w.Receive(r.Method); err == nil {
			t.Errorf("%s: the connection is used on after a body that was cut", name)
		}
	}
	// Sending byte by byte does not help: the deadline is for the whole body.
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
	harness.WantRefused(t, answer, http.StatusRequestTimeout, "REQUEST_TIMEOUT")
	u.None(t)
	g.WantFailures(t, key, 0)
}

// TestNothingBeforeTheBodyIsVerified watches the upstream while a correctly
// signed body arrives, and while a body with a wrong hash arrives.
func TestNothingBeforeTheBodyIsVerified(t *testing.T) {
	harness.EachTerminal(t, testNothingBeforeTheBodyIsVerified)
}

func testNothingBeforeTheBodyIsVerified(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	body := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	for _, c := range []struct {
		name, end string
		message   string
	}{
		{"wrong in its last byte", "]", harness.BodyMismatch},
		{"right", "}", ""},
	} {
		r := key.Request(http.MethodPost, "/api/v1/cards", body)
		w := g.Connect(t)
		w.WriteText(t, r.Head()+body[:len(body)-1])
		// The answer to a second request shows that the gateway had time for the first.
		harness.WantUnauthorized(t, g.Send(t, key.Post().Forge()), harness.WrongSignature)
		if conns, bytes := u.Traffic(); conns+bytes > 0 {
			t.Fatalf("%s: the upstream saw %d connections and %d bytes before the end of the body", c.name, conns, bytes)
		}
		w.WriteText(t, c.end)
		answer, err := w.Receive(r.Method)
		if err != nil {
			t.Fatal(err)
		}
		harness.WantUnauthorized(t, answer, c.message)
	}
	if r := u.One(t); r.Body != body {
		t.Errorf("the upstream received a body of %d bytes, want %d", len(r.Body), len(body))
	}
}
