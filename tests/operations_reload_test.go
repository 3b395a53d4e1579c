package tests

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// goroutines returns how many goroutines the process has.
func (g *gateway) goroutines() (n int) {
	g.t.Helper()
	_, text := g.admin(http.MethodGet, "/debug/pprof/goroutine?debug=1", "", "")
	if _, err := fmt.Sscanf(text, "goroutine profile: total %d", &n); err != nil {
		g.t.Fatalf("the profile of goroutines begins with %.80q", text)
	}
	return n
}

// traffic sends requests over connections of their own until stop is closed,
// and returns a function that waits for the end and tells the statuses.
func (g *gateway) traffic(t testing.TB, clients int, next func() *request, stop <-chan struct{}) func() map[int]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	statuses := make(map[int]int)
	for range clients {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				answer, _ := g.insist(t, next())
				if answer == nil {
					return
				}
				mu.Lock()
				statuses[answer.status]++
				mu.Unlock()
			}
		})
	}
	return func() map[int]int {
		all.Wait()
		return statuses
	}
}

// neverBack scrapes until stop is closed. No counter may ever fall, no series
// may vanish.
func (g *gateway) neverBack(t testing.TB, stop <-chan struct{}) {
	last := g.scrape(t)
	for {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		now := g.scrape(t)
		for series, value := range last {
			name, _, _ := strings.Cut(series, "{")
			if !strings.HasPrefix(name, "card_gateway_") {
				continue
			}
			counts := strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_count")
			if got, there := now[series]; !there || counts && got < value {
				t.Errorf("%s fell from %v to %v (there: %v)", series, value, got, there)
				return
			}
		}
		last = now
	}
}

// TestHundredReloads loads another configuration a hundred times while
// requests come in.
func TestHundredReloads(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	// A connection to the upstream that a request of an old configuration gives
	// back is kept as long as any, and has two goroutines meanwhile.
	s := site{upstream: u.addr, limits: withLimits, global: "limit default 1000000/1m", proxy: "transport http {\nkeepalive 1s\n}"}
	g := startGateway(t, s)
	key := g.newKey(nil)
	var sent atomic.Int64
	next := func() *request {
		if sent.Add(1)%10 == 0 {
			return credentials{"nobody", "x"}.get()
		}
		return key.get()
	}
	variants := []string{"\noperation freeze_card POST /api/v1/cards/{cardId}/freeze cards:write", "\nlimit total 1000000/1m", "\nwindow 4m", ""}
	load := func(i int) {
		s.global = "limit default 1000000/1m" + variants[i%len(variants)]
		g.reload(s)
	}
	for i := range variants {
		load(i)
	}
	accepted(t, g.send(t, key.get()))
	goroutines, before := g.goroutines(), g.scrape(t)

	stop := make(chan struct{})
	statuses := g.traffic(t, 4, next, stop)
	var watching sync.WaitGroup
	watching.Go(func() { g.neverBack(t, stop) })
	for i := range 100 {
		load(i)
	}
	close(stop)
	watching.Wait()
	got := statuses()
	if len(got) != 2 || got[200] == 0 || got[401] == 0 {
		t.Errorf("while configurations were loaded the answers were %v, want 200 and 401 alone", got)
	}
	g.wantCounted(t, before, samples{
		requestSeries("get_card", "accepted"): float64(got[200]), requestSeries("get_card", "unknown_key"): float64(got[401]),
	})
	eventually(t, "the goroutines of old configurations ended", func() bool { return g.goroutines() <= goroutines+5 })
	for _, sign := range []string{"duplicate", "AlreadyRegistered", `"level":"error"`, "panic"} {
		if said := g.read("default.log") + g.read("stderr"); strings.Contains(said, sign) {
			t.Errorf("after 100 reloads the log says %q", sign)
		}
	}
}
