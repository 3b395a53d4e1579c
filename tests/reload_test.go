package tests

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReloadUnderLoad loads configurations while clients send: nothing is
// refused, nothing is accepted twice. An HTTP server that stops drops the
// connections on which no request has arrived yet; what was sent on one of
// those is sent again and must be as new.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	var sent, dropped atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := key.request(http.MethodPost, fmt.Sprintf("/api/v1/orders/%d", sent.Add(1)), `{"a":1}`)
				for _, want := range []string{"", replayed} {
					answer, again := g.insist(t, r)
					dropped.Add(int64(again))
					if unauthorized(t, answer, want); t.Failed() {
						return
					}
				}
			}
		})
	}
	for i := range 10 {
		s := g.site
		s.global = fmt.Sprintf("lock_after %d", 50+i)
		g.reload(s)
		before := sent.Load()
		eventually(t, "the load goes on", func() bool { return sent.Load() > before+4 || t.Failed() })
	}
	close(stop)
	clients.Wait()
	if got := int64(len(u.took())); got != sent.Load() {
		t.Errorf("the upstream received %d requests of %d", got, sent.Load())
	}
	t.Logf("10 reloads, %d requests, each twice; %d connections dropped", sent.Load(), dropped.Load())
	g.wantFailures(t, key, 0)
}

// insist sends a request until there is an answer, and says how often it was
// sent again. It is for moments at which a server stops, which drops
// connections on which no request has arrived.
func (g *gateway) insist(t testing.TB, r *request) (answer *response, again int) {
	t.Helper()
	for ; again < 1000; again++ {
		answer, err := g.try(r)
		if err == nil {
			return answer, again
		}
	}
	t.Error("no connection was answered")
	return &response{header: make(http.Header)}, again
}

// TestSlowUploadOutlivesAReload begins a body under one configuration and ends
// it under the next, which may even keep its state elsewhere.
func TestSlowUploadOutlivesAReload(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for _, again := range []bool{false, true} {
		r := key.post()
		w := g.connect(t)
		w.write(t, r.head()+r.body[:3])
		// An answer on another connection shows that the body is waited for.
		accepted(t, g.send(t, key.get()))
		if again {
			g.tryReloadElsewhere(t)
		} else {
			s := g.site
			s.global = "lock_after 40"
			g.reload(s)
		}
		w.write(t, r.body[3:])
		answer, err := w.receive(r.method)
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, answer)
		if !again {
			unauthorized(t, g.send(t, r), replayed)
		}
	}
}

// tryReloadElsewhere loads a configuration whose store is another directory.
func (g *gateway) tryReloadElsewhere(t testing.TB) {
	t.Helper()
	text := strings.Replace(g.caddyfile(), "store file "+g.path("data"), "store file "+g.path("data2"), 1)
	if status, said := g.admin(http.MethodPost, "/load", "text/caddyfile", text); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, said)
	}
}

// TestFailedReload loads configurations that cannot work: the one before goes
// on, with its keys, its state and its administration.
func TestFailedReload(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	used := key.get()
	accepted(t, g.send(t, used))
	for global, says := range map[string]string{
		"limit get_card 0/1m":       "Caddyfile:12",
		"limit no_such 5/1m":        "no_such",
		"window 500ms":              "window",
		"lock_after none":           "lock_after",
		"no_such_option":            "no_such_option",
		"operation x GET /y cards:": "Caddyfile:12",
	} {
		s := g.site
		s.global = global
		if err := g.tryReload(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the reload says %v, want %s in it", global, err, says)
		}
		unauthorized(t, g.send(t, used), replayed)
		accepted(t, g.send(t, key.get()))
		accepted(t, g.send(t, g.newKey(nil).get()))
	}
	// A port that is taken fails later, when parts of it run already.
	s := g.site
	s.extra = "}\nhttp://" + u.addr + " {\n"
	if err := g.tryReload(s); err == nil {
		t.Error("a reload onto a port that is taken succeeds")
	}
	for r, message := range map[*request]string{used: replayed, g.newKey(nil).get(): ""} {
		answer, _ := g.insist(t, r)
		unauthorized(t, answer, message)
	}
	g.do(key, "disable")
	answer, _ := g.insist(t, key.get())
	unauthorized(t, answer, keyDisabled)
}
