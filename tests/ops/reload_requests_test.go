package ops

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestReloadUnderLoad loads configurations while clients send: nothing is
// refused, nothing is accepted twice. An HTTP server that stops drops the
// connections on which no request has arrived yet; what was sent on one of
// those is sent again and must be as new.
func TestReloadUnderLoad(t *testing.T) { harness.EachTerminal(t, testReloadUnderLoad) }

func testReloadUnderLoad(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	var dropped atomic.Int64
	load := harness.StartLoad(4, func(_ int, number int64) {
		r := key.Request(http.MethodPost, fmt.Sprintf("/api/v1/orders/%d", number), `{"a":1}`)
		for _, want := range []string{"", harness.Replayed} {
			answer, again := g.Insist(t, r)
			dropped.Add(int64(again))
			harness.WantUnauthorized(t, answer, want)
		}
	})
	defer load.Stop()
	for i := range 10 {
		s := g.Site
		s.Global = fmt.Sprintf("lock_after %d", 50+i)
		g.Reload(s)
		before := load.Sent()
		harness.Eventually(t, "the load goes on", func() bool { return load.Sent() > before+4 || t.Failed() })
	}
	load.Stop()
	if got := int64(len(u.Took())); got != load.Sent() {
		t.Errorf("the upstream received %d requests of %d", got, load.Sent())
	}
	t.Logf("10 reloads, %d requests, each twice; %d connections dropped", load.Sent(), dropped.Load())
	g.WantFailures(t, key, 0)
}

// TestSlowUploadOutlivesAReload begins a body under one configuration and ends
// it under the next, which may even keep its state elsewhere.
func TestSlowUploadOutlivesAReload(t *testing.T) {
	harness.EachTerminal(t, testSlowUploadOutlivesAReload)
}

func testSlowUploadOutlivesAReload(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	for _, again := range []bool{false, true} {
		r := key.Post()
		w := g.Connect(t)
		w.WriteText(t, r.Head()+r.Body[:3])
		// An answer on another connection shows that the body is waited for.
		harness.WantAccepted(t, g.Send(t, key.Get()))
		if again {
			tryReloadElsewhere(t, g)
		} else {
			s := g.Site
			s.Global = "lock_after 40"
			g.Reload(s)
		}
		w.WriteText(t, r.Body[3:])
		answer, err := w.Receive(r.Method)
		if err != nil {
			t.Fatal(err)
		}
		harness.WantAccepted(t, answer)
		if !again {
			harness.WantUnauthorized(t, g.Send(t, r), harness.Replayed)
		}
	}
}

// tryReloadElsewhere loads a configuration whose store is another directory.
func tryReloadElsewhere(t testing.TB, g *harness.Gateway) {
	t.Helper()
	text := strings.Replace(g.Caddyfile(), "store file "+g.Path("data"), "store file "+g.Path("data2"), 1)
	if status, said := g.Admin(http.MethodPost, "/load", "text/caddyfile", text); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, said)
	}
}

// TestFailedReload loads configurations that cannot work: the one before goes
// on, with its keys, its state and its administration.
func TestFailedReload(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	used := key.Get()
	harness.WantAccepted(t, g.Send(t, used))
	for global, says := range map[string]string{
		"limit get_card 0/1m":       "Caddyfile:12",
		"limit no_such 5/1m":        "no_such",
		"window 500ms":              "window",
		"lock_after none":           "lock_after",
		"no_such_option":            "no_such_option",
		"operation x GET /y cards:": "Caddyfile:12",
	} {
		s := g.Site
		s.Global = global
		if err := g.TryReload(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the reload says %v, want %s in it", global, err, says)
		}
		harness.WantUnauthorized(t, g.Send(t, used), harness.Replayed)
		harness.WantAccepted(t, g.Send(t, key.Get()))
		harness.WantAccepted(t, g.Send(t, g.NewKey(nil).Get()))
	}
	// A port that is taken fails later, when parts of it run already.
	s := g.Site
	s.Extra = "}\nhttp://" + u.Addr + " {\n"
	if err := g.TryReload(s); err == nil {
		t.Error("a reload onto a port that is taken succeeds")
	}
	for r, message := range map[*harness.Request]string{used: harness.Replayed, g.NewKey(nil).Get(): ""} {
		answer, _ := g.Insist(t, r)
		harness.WantUnauthorized(t, answer, message)
	}
	g.Do(key, "disable")
	answer, _ := g.Insist(t, key.Get())
	harness.WantUnauthorized(t, answer, harness.KeyDisabled)
}
