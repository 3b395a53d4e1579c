package ops

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// countGoroutines returns how many goroutines the process has.
func countGoroutines(g *harness.Gateway) (n int) {
	g.T.Helper()
	_, text := g.Admin(http.MethodGet, "/debug/pprof/goroutine?debug=1", "", "")
	if _, err := fmt.Sscanf(text, "goroutine profile: total %d", &n); err != nil {
		g.T.Fatalf("the profile of goroutines begins with %.80q", text)
	}
	return n
}

// statuses are how many answers had each status.
type statuses struct {
	mu sync.Mutex
	of map[int]int
}

func (s *statuses) add(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[status]++
}

// neverBack scrapes until stop is closed. No counter may fall, and no series may
// disappear.
func neverBack(t testing.TB, g *harness.Gateway, stop <-chan struct{}) {
	last := g.Scrape(t)
	for {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		now := g.Scrape(t)
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

// TestManyReloads loads another configuration forty times while
// requests come in.
func TestManyReloads(t *testing.T) { harness.EachTerminal(t, testManyReloads) }

func testManyReloads(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	// A connection to the upstream from a request of an old configuration is
	// kept as long as any other, and has two goroutines.
	keepAlive := map[string]string{harness.CardForward: "keepalive 1s", harness.ReverseProxy: "transport http {\nkeepalive 1s\n}"}[terminal]
	s := harness.Site{Upstream: u.Addr, Terminal: terminal, Limits: harness.WithLimits, Global: "limit default 1000000/1m", Proxy: keepAlive}
	g := harness.StartGateway(t, s)
	key := g.NewKey(nil)
	variants := []string{"\noperation freeze_card POST /api/v1/cards/{cardId}/freeze cards:write", "\nlimit total 1000000/1m", "\nwindow 4m", ""}
	load := func(i int) {
		s.Global = "limit default 1000000/1m" + variants[i%len(variants)]
		g.Reload(s)
	}
	for i := range variants {
		load(i)
	}
	harness.WantAccepted(t, g.Send(t, key.Get()))
	goroutines, before := countGoroutines(g), g.Scrape(t)

	stop := make(chan struct{})
	answers := statuses{of: make(map[int]int)}
	clients := harness.StartLoad(4, func(_ int, number int64) {
		r := key.Get()
		if number%10 == 0 {
			r = harness.Credentials{ID: "nobody", Secret: "x"}.Get()
		}
		answer, _ := g.Insist(t, r)
		answers.add(answer.Status)
	})
	defer clients.Stop()
	var watching sync.WaitGroup
	watching.Go(func() { neverBack(t, g, stop) })
	for i := range harness.Rounds(40, 10) {
		load(i)
	}
	close(stop)
	watching.Wait()
	clients.Stop()
	got := answers.of
	if len(got) != 2 || got[200] == 0 || got[401] == 0 {
		t.Errorf("while configurations were loaded the answers were %v, want 200 and 401 alone", got)
	}
	g.WantCounted(t, before, harness.Samples{
		harness.RequestSeries("get_card", "accepted"): float64(got[200]), harness.RequestSeries("get_card", "unknown_key"): float64(got[401]),
	})
	harness.Eventually(t, "the goroutines of old configurations ended", func() bool { return countGoroutines(g) <= goroutines+5 })
	// Caddy itself reports at this level when a server took longer than the grace
	// period to stop, as on a busy machine.
	for _, sign := range []string{"duplicate", "AlreadyRegistered", `"level":"error"`, "panic"} {
		for line := range strings.Lines(g.ReadFile("default.log") + g.ReadFile("stderr")) {
			if strings.Contains(line, sign) && !strings.Contains(line, `"msg":"server shutdown"`) && !strings.Contains(line, `"logger":"admin`) {
				t.Errorf("after the reloads the log says %q: %s", sign, line)
			}
		}
	}
}
