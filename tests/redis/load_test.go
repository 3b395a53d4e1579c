package redis

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// loadPause is the time between two requests of one client of a load.
const loadPause = 8 * time.Millisecond

// A redisLoad sends fresh requests over several gateways, each client one
// after another on a kept connection, until it is finished.
type redisLoad struct {
	t        testing.TB
	gateways []*harness.Gateway
	key      harness.Credentials
	stop     chan struct{}
	clients  sync.WaitGroup

	mu   sync.Mutex
	sent []exchanged
}

// exchanged is a request with the answer to it.
type exchanged struct {
	gateway *harness.Gateway
	request *harness.Request
	answer  *harness.Response
	at      time.Time // when it was sent
}

func startLoad(t testing.TB, key harness.Credentials, gateways ...*harness.Gateway) *redisLoad {
	t.Helper()
	l := &redisLoad{t: t, gateways: gateways, key: key, stop: make(chan struct{})}
	for _, g := range gateways {
		for range 3 {
			l.clients.Go(func() { l.client(g) })
		}
	}
	return l
}

// fresh returns a request whose target is its own, so that the upstream can
// tell requests apart.
func (l *redisLoad) fresh() *harness.Request {
	r := l.key.Request(http.MethodPost, "", `{"a":1}`)
	r.Target = "/api/v1/orders/" + r.Value("X-Nonce")
	return r.Sign(l.key.Secret)
}

func (l *redisLoad) client(g *harness.Gateway) {
	w, err := g.Dial("")
	if err != nil {
		l.t.Error(err)
		return
	}
	defer w.Close()
	pause := time.NewTicker(loadPause)
	defer pause.Stop()
	for {
		r, at := l.fresh(), time.Now()
		answer, err := w.Exchange(r)
		if err != nil {
			l.t.Errorf("under load: %v", err)
			return
		}
		l.note(exchanged{g, r, answer, at})
		select {
		case <-l.stop:
			return
		case <-pause.C:
		}
	}
}

func (l *redisLoad) note(e exchanged) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, e)
}

// since returns what was sent after a moment and is answered.
func (l *redisLoad) since(moment time.Time) []exchanged {
	l.mu.Lock()
	defer l.mu.Unlock()
	var later []exchanged
	for _, e := range l.sent {
		if e.at.After(moment) {
			later = append(later, e)
		}
	}
	return later
}

// enough waits until every gateway has answered some requests that were sent
// after the moment with the status.
func (l *redisLoad) enough(moment time.Time, status int) {
	l.t.Helper()
	const some = 10
	harness.Eventually(l.t, "every gateway answers "+http.StatusText(status), func() bool {
		by := make(map[*harness.Gateway]int)
		for _, e := range l.since(moment) {
			if e.answer.Status == status {
				by[e.gateway]++
			}
		}
		return l.t.Failed() || !slices.ContainsFunc(l.gateways, func(g *harness.Gateway) bool { return by[g] < some })
	})
	if l.t.Failed() {
		l.t.FailNow()
	}
}

// flows waits until all gateways accept new requests.
func (l *redisLoad) flows() {
	l.t.Helper()
	l.enough(time.Now(), http.StatusOK)
}

// finish ends the load and returns all that was sent.
func (l *redisLoad) finish() []exchanged {
	close(l.stop)
	l.clients.Wait()
	if l.t.Failed() {
		l.t.FailNow()
	}
	return l.sent
}

// judged sends a request until its answer is not a timeout: on a busy machine the
// default timeouts may pass.
func judged(t testing.TB, w *harness.Wire, r *harness.Request) (answer *harness.Response) {
	t.Helper()
	harness.Eventually(t, "the store answers", func() bool {
		answer = insistOn(t, w, r)
		return answer.Status != http.StatusServiceUnavailable || harness.Messages([]*harness.Response{answer})[harness.NonceLost] == 1
	})
	return answer
}

// wantOnce repeats all requests, each at another gateway than before. It checks
// that the upstream has received exactly the accepted requests, each once.
// Before the call, nobody may have read the upstream's requests.
func wantOnce(t testing.TB, u *harness.Upstream, gateways []*harness.Gateway, sent []exchanged) {
	t.Helper()
	accepted := make(map[string]int)
	for _, e := range sent {
		if e.answer.Status == http.StatusOK {
			accepted[e.request.Method+" "+e.request.Target+" HTTP/1.1"]++
		}
	}
	wires := make([]*harness.Wire, len(gateways))
	for i, g := range gateways {
		wires[i] = g.Connect(t)
	}
	for i, e := range sent {
		to := i % len(gateways)
		if gateways[to] == e.gateway {
			to = (to + 1) % len(gateways)
		}
		answer := judged(t, wires[to], e.request)
		if answer.Status == http.StatusOK {
			accepted[e.request.Method+" "+e.request.Target+" HTTP/1.1"]++
			continue
		}
		if got := harness.Messages([]*harness.Response{answer}); got[harness.Replayed]+got[harness.OutsideWindow]+got[harness.NonceLost] != 1 {
			t.Fatalf("a request that was answered %d is answered %s when it comes again", e.answer.Status, answer)
		}
	}
	seen := make(map[string]int)
	for _, r := range u.Took() {
		seen[r.Line]++
	}
	for line, n := range seen {
		if n != 1 || accepted[line] != 1 {
			t.Errorf("the upstream received %s %d times, and it was accepted %d times", line, n, accepted[line])
		}
	}
	if len(seen) != len(accepted) {
		t.Errorf("the upstream received %d requests, %d were accepted", len(seen), len(accepted))
	}
	t.Logf("%d requests sent, %d accepted", len(sent), len(accepted))
}
