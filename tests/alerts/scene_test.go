package alerts

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A scene is what one fault happens to: gateways with an issuer and perhaps a
// Redis, their clients, and the load balancer that asks whether they are ready.
type scene struct {
	*fault
	t       testing.TB
	every   scale
	job     string // its name in Prometheus
	watch   *harness.Prometheus
	target  string // the file that makes Prometheus scrape it
	nodes   []*harness.Gateway
	issuer  *harness.Upstream
	other   string // address of a second issuer, or ""
	redis   *harness.RedisServer
	key     harness.Credentials
	traffic atomic.Pointer[traffic]
	undo    []func() // what ends the fault
	reloads int      // that make the keys be counted
	struck  time.Time

	asked    []atomic.Int64 // of each node: since when it owes the load balancer an answer, in ns; 0: it does not
	accepted atomic.Int64
	late     atomic.Int64 // the longest time between two beats, in ns
	clients  sync.WaitGroup
	ended    chan struct{}
}

// traffic returns what the clients send at a beat, from 1.
type traffic func(beat int) []*harness.Request

const customer = `{"type":"individual","firstName":"Zoë","lastName":"Ng","email":"zoe.ng@example.com","phoneCode":"+44",` +
	`"phoneNumber":"7700900123","country":"GB","dateOfBirth":"1990-04-12","gender":"female"}`

// healthy is the traffic of a scene without a fault.
func (s *scene) healthy(beat int) []*harness.Request {
	switch beat % 3 {
	case 0:
		return []*harness.Request{s.key.JSON(http.MethodPost, "/api/v1/Customers", customer)}
	case 1:
		return []*harness.Request{s.key.Post()}
	default:
		return []*harness.Request{s.key.Get()}
	}
}

// answers is an issuer without a fault.
func answers(r *harness.Received) harness.Reply {
	if strings.Contains(r.Line, "/Customers") {
		return harness.Answer(201, `{"data":{"id":"u1","type":"individual","first_name":"Zoë","email":"zoe.ng@example.com",`+
			`"date_of_birth":"1990-04-12T00:00:00Z"},"request_id":"r1","timestamp":"2026-01-01T00:00:00Z"}`, "Content-Type: application/json")
	}
	return harness.Answer(200, `{"ok":true}`, "Content-Type: application/json")
}

// site returns the configuration, with more lines for each block of the gateway.
func (s *scene) site(global, auth string) harness.Site {
	site := harness.Site{Upstream: strings.TrimSpace(s.issuer.Addr + " " + s.other), AnswerTimeout: "3s", Global: "limit issue_card 600/1m\nlimit create_customer 600/1m\n" + s.global + global}
	if s.redis != nil {
		site.Store = "redis " + s.redis.URL() + " {\n" + cmp.Or(s.store, "settle_timeout 1s\nio_timeout 1s") + "\n}" // the machine may be busy
	}
	const translate = "upstream snake_case"
	if s.mistake {
		site.Routes = harness.WithMistake(s.auth+auth, translate, site.ToIssuer())
	} else {
		site.Routes = "route {\ncard_rate_limit\ncard_auth {\n" + s.auth + auth + "\n}\ncard_translate {\n" + translate + "\n}\n" + site.ToIssuer() + "}\n"
	}
	return site
}

// start starts all but the clients.
func (s *scene) start() {
	s.issuer = harness.StartUpstream(s.t)
	s.issuer.Does(answers)
	if s.second {
		other := harness.StartUpstream(s.t)
		other.Does(answers)
		s.other = other.Addr
	}
	if s.on != "" {
		s.redis = harness.StartRedis(s.t, "--appendonly", "yes", "--maxmemory-policy", "noeviction", "--maxmemory", "64mb")
	}
	nodes := 1
	if s.on == twoNodes {
		nodes = 2
	}
	for range nodes {
		g := harness.NewGateway(s.t, s.site("", ""))
		if len(s.nodes) > 0 {
			g.WriteFile("master.key", s.nodes[0].ReadFile("master.key"))
		}
		if s.prepare != nil {
			s.prepare(g)
		}
		g.Start()
		s.nodes = append(s.nodes, g)
	}
	s.key = s.nodes[0].NewKey(nil)
	s.ended = make(chan struct{})
	s.send(s.healthy)
	s.asked = make([]atomic.Int64, len(s.nodes))
	for i := range s.nodes {
		s.clients.Go(func() { s.balance(i, s.every.of(5*time.Second)) })
	}
	s.clients.Go(s.beats)
	s.scraped()
}

// scraped makes Prometheus scrape the gateways, and unscraped ends that.
func (s *scene) scraped() {
	addrs := make([]string, len(s.nodes))
	for i, g := range s.nodes {
		addrs[i] = fmt.Sprintf("%q", g.Addr)
	}
	text := fmt.Sprintf(`[{"targets": [%s], "labels": {"job": %q}}]`, strings.Join(addrs, ", "), s.job)
	s.write(text)
}

func (s *scene) unscraped() { s.write("[]") }

// write replaces the file of targets at once: Prometheus may read it at any time.
func (s *scene) write(text string) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "targets")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(file, s.target); err != nil {
		s.t.Fatal(err)
	}
}

// send changes what the clients send from the next beat on.
func (s *scene) send(all traffic) { s.traffic.Store(&all) }

// alsoSend adds requests to the healthy traffic, until the fault ends.
func (s *scene) alsoSend(more traffic) {
	began := 0
	s.send(func(beat int) []*harness.Request {
		began++
		return append(s.healthy(beat), more(began)...)
	})
	s.finally(func() { s.send(s.healthy) })
}

// finally notes what ends the fault.
func (s *scene) finally(undo func()) { s.undo = append(s.undo, undo) }

// beatEvery is the time between two beats. It is not scaled: some rules want a
// number of requests in a second.
const beatEvery = 200 * time.Millisecond

// beats sends the traffic until the scene ends. Each request has a goroutine of its
// own, so that slow answers do not end the traffic.
func (s *scene) beats() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	last := time.Now()
	for beat := 1; ; beat++ {
		select {
		case <-s.ended:
			return
		case <-tick.C:
		}
		s.late.Store(max(s.late.Load(), int64(time.Since(last))))
		last = time.Now()
		for i, r := range (*s.traffic.Load())(beat) {
			g := s.choose(beat + i)
			s.clients.Go(func() {
				if answer, err := g.Try(r); err == nil && answer.Status < 300 {
					s.accepted.Add(1)
				}
			})
		}
	}
}

// hangs is how long a gateway may take to say that it is ready, before the load
// balancer sends it no more requests.
const hangs = 2 * time.Second

// choose returns the gateway for a request: those that hang are left out, unless
// all do.
func (s *scene) choose(n int) *harness.Gateway {
	for i := range s.nodes {
		if since := s.asked[(n+i)%len(s.nodes)].Load(); since == 0 || time.Since(time.Unix(0, since)) < hangs {
			return s.nodes[(n+i)%len(s.nodes)]
		}
	}
	return s.nodes[n%len(s.nodes)]
}

// balance asks a gateway as often as a load balancer whether it is ready.
func (s *scene) balance(node int, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-tick.C:
		}
		s.asked[node].CompareAndSwap(0, time.Now().UnixNano())
		if _, err := s.nodes[node].Try(&harness.Request{Method: http.MethodGet, Target: "/readyz"}); err == nil {
			s.asked[node].Store(0)
		}
	}
}

// end stops the clients.
func (s *scene) end() {
	close(s.ended)
	s.clients.Wait()
}
