package request

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// sentRequests collects requests that several clients send.
type sentRequests struct {
	mu  sync.Mutex
	all []*harness.Request
}

func (s *sentRequests) add(r *harness.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}

// TestNoReplayAfterKill kills the real process under load again and again.
// After each start, all requests so far are sent once more. The upstream must not
// get any request twice.
func TestNoReplayAfterKill(t *testing.T) { harness.EachTerminal(t, testNoReplayAfterKill) }

func testNoReplayAfterKill(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	kills := harness.Rounds(22, 3)
	var sent sentRequests
	for round := range kills {
		loadThenKill(g, key, &sent, 20+round%7)
		g.Start()
		repeatAll(t, g, sent.all)
	}
	seen := make(map[string]int)
	for _, r := range u.Took() {
		if seen[r.Line]++; seen[r.Line] > 1 {
			t.Errorf("the upstream received %s %d times", r.Line, seen[r.Line])
		}
	}
	if len(seen) < kills*20 {
		t.Errorf("the upstream saw only %d requests under load", len(seen))
	}
	t.Logf("%d kills, %d requests sent, %d reached the upstream", kills, len(sent.all), len(seen))
}

// loadThenKill makes several clients send until enough requests are accepted,
// and kills the process while they still send.
func loadThenKill(g *harness.Gateway, key harness.Credentials, sent *sentRequests, enough int) {
	g.T.Helper()
	var clients sync.WaitGroup
	var got atomic.Int64
	reached := make(chan struct{})
	for range 6 {
		clients.Go(func() {
			w, err := g.Dial("")
			if err != nil {
				g.T.Error(err)
				return
			}
			defer w.Close()
			for {
				method, body := http.MethodGet, ""
				if got.Load()%2 == 0 {
					method, body = http.MethodPost, `{"a":1}`
				}
				r := key.Request(method, "", body)
				r.Target = "/api/v1/orders/" + r.Value("X-Nonce")
				sent.add(r.Sign(key.Secret))
				answer, err := w.Exchange(r)
				if err != nil {
					return // the process is dead
				}
				if answer.Status != http.StatusOK {
					g.T.Errorf("under load: %s", answer)
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
	case <-time.After(harness.Patience):
		g.T.Error("the load was never accepted")
	}
	g.Kill()
	clients.Wait()
	if g.T.Failed() {
		g.T.FailNow()
	}
}

// repeatAll sends all requests once more. If the first copy was lost with the
// process, the request may be accepted now.
func repeatAll(t testing.TB, g *harness.Gateway, all []*harness.Request) {
	t.Helper()
	next := make(chan *harness.Request)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			w, err := g.Dial("")
			if err != nil {
				t.Error(err)
			}
			for r := range next {
				if err != nil {
					continue
				}
				var answer *harness.Response
				if answer, err = w.Exchange(r); err != nil {
					t.Error(err)
				} else if answer.Status != http.StatusOK && harness.Messages([]*harness.Response{answer})[harness.Replayed] != 1 {
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

// TestFailuresSurviveKill kills the process after each failure.
func TestFailuresSurviveKill(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "lock_after 6"})
	key := g.NewKey(nil)
	for n := range 6 {
		harness.WantUnauthorized(t, g.Send(t, key.Get().Forge()), harness.WrongSignature)
		g.Kill()
		g.Start()
		g.WantFailures(t, key, n+1)
	}
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyLocked)
	u.None(t)
}

// TestChangesSurviveKill kills the process after each change of a key.
func TestChangesSurviveKill(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	var keys []harness.Credentials
	for n := range 4 {
		keys = append(keys, g.NewKey(harness.Fields{"description": fmt.Sprintf("key %d", n)}))
		g.Kill()
		g.Start()
		for _, key := range keys {
			harness.WantAccepted(t, g.Send(t, key.Get()))
		}
	}
	g.Do(keys[0], "disable")
	g.KeyCall(http.MethodDelete, "/"+keys[1].ID, nil)
	g.Kill()
	g.Start()
	harness.WantUnauthorized(t, g.Send(t, keys[0].Get()), harness.KeyDisabled)
	harness.WantUnauthorized(t, g.Send(t, keys[1].Get()), harness.UnknownKey)
	harness.WantAccepted(t, g.Send(t, keys[2].Get()))
}
