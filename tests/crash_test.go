package tests

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// kills is how often the process is killed under load.
const kills = 22

// sentRequests collects requests that several clients send.
type sentRequests struct {
	mu  sync.Mutex
	all []*request
}

func (s *sentRequests) add(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}

// TestNoReplayAfterKill kills the real process under load again and again.
// After each start, everything that was ever sent is sent once more. What the
// upstream sees is the judge: no request twice.
func TestNoReplayAfterKill(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	var sent sentRequests
	for round := range kills {
		g.loadThenKill(t, key, &sent, 20+round%7)
		g.start()
		g.repeatAll(t, sent.all)
	}
	seen := make(map[string]int)
	for _, r := range u.took() {
		if seen[r.line]++; seen[r.line] > 1 {
			t.Errorf("the upstream received %s %d times", r.line, seen[r.line])
		}
	}
	if len(seen) < kills*20 {
		t.Errorf("the upstream saw only %d requests under load", len(seen))
	}
	t.Logf("%d kills, %d requests sent, %d reached the upstream", kills, len(sent.all), len(seen))
}

// loadThenKill lets several clients send until enough was accepted, and kills
// the process while they still do.
func (g *gateway) loadThenKill(t testing.TB, key credentials, sent *sentRequests, enough int) {
	t.Helper()
	var clients sync.WaitGroup
	var got atomic.Int64
	reached := make(chan struct{})
	for range 6 {
		clients.Go(func() {
			w, err := g.dial("")
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Close()
			for {
				method, body := http.MethodGet, ""
				if got.Load()%2 == 0 {
					method, body = http.MethodPost, `{"a":1}`
				}
				r := key.request(method, "", body)
				r.target = "/api/v1/orders/" + r.value("X-Nonce")
				sent.add(r.sign(key.secret))
				answer, err := w.exchange(r)
				if err != nil {
					return // the process is dead
				}
				if answer.status != http.StatusOK {
					t.Errorf("under load: %s", answer)
					return
				}
				if got.Add(1) == int64(enough) {
					close(reached)
				}
			}
		})
	}
	select {
	case <-reached:
	case <-time.After(patience):
		t.Error("the load was never accepted")
	}
	g.kill()
	clients.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// repeatAll sends all requests once more. One whose first copy died with the
// process may be accepted now.
func (g *gateway) repeatAll(t testing.TB, all []*request) {
	t.Helper()
	next := make(chan *request)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			w, err := g.dial("")
			if err != nil {
				t.Error(err)
			}
			for r := range next {
				if err != nil {
					continue
				}
				var answer *response
				if answer, err = w.exchange(r); err != nil {
					t.Error(err)
				} else if answer.status != http.StatusOK && messages([]*response{answer})[replayed] != 1 {
					t.Errorf("a repeated request is answered %s", answer)
				}
			}
			if w != nil {
				_ = w.Close()
			}
		})
	}
	for _, r := range all {
		next <- r
	}
	close(next)
	clients.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// TestFailuresSurviveKill kills the process behind each failure.
func TestFailuresSurviveKill(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, global: "lock_after 6"})
	key := g.newKey(nil)
	for n := range 6 {
		unauthorized(t, g.send(t, key.get().forge()), wrongSignature)
		g.kill()
		g.start()
		g.wantFailures(t, key, n+1)
	}
	unauthorized(t, g.send(t, key.get()), keyLocked)
	u.none(t)
}

// TestChangesSurviveKill kills the process behind each change of a key.
func TestChangesSurviveKill(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	var keys []credentials
	for n := range 4 {
		keys = append(keys, g.newKey(fields{"description": fmt.Sprintf("key %d", n)}))
		g.kill()
		g.start()
		for _, key := range keys {
			accepted(t, g.send(t, key.get()))
		}
	}
	g.do(keys[0], "disable")
	g.keyCall(http.MethodDelete, "/"+keys[1].id, nil)
	g.kill()
	g.start()
	unauthorized(t, g.send(t, keys[0].get()), keyDisabled)
	unauthorized(t, g.send(t, keys[1].get()), unknownKey)
	accepted(t, g.send(t, keys[2].get()))
}
