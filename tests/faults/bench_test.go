// Package faults is the fault bench: gateways under a load of correct requests,
// while servers, networks, clocks and the issuer fail. What the issuer received
// is the judge of whether a request was accepted twice.
//
// A short mix runs with the other tests. `make faults` runs all of it and writes
// the table of docs/reliability.md.
package faults

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// full is whether everything is to run, one fault after the other, with the load
// and the durations that docs/reliability.md speaks of.
var full = os.Getenv("CARD_TEST_FAULTS") == "all"

// pick returns one number for the full bench and one for the short mix.
func pick(all, short int) int {
	if full {
		return all
	}
	return short
}

// patience bounds every wait. It is long, because a failover with the documented
// settings takes a quarter of a minute on a machine that has nothing else to do.
const patience = 5 * time.Minute

// A bench is a deployment under test.
type bench struct {
	t        *testing.T
	issuer   *harness.Upstream
	servers  *harness.Servers // nil: an embedded store
	gateways []*harness.Gateway
	keys     []harness.Credentials // the first is of the server that fails
	clock    *harness.Clock        // of the server, where that is what fails
	own      *harness.Clock        // of the first gateway, where that is what fails
	limits   string                // lines of card_rate_limit; empty: none
	global   string                // further lines of the global block
	block    string                // of the line store, with Redis; empty: none
	disk     bool                  // the embedded store gets a small disk of its own
	load     *load
	replayer *replayer
	control  *control
}

// A topology makes a bench.
type topology struct {
	name  string
	start func(b *bench)
}

var (
	embedded = topology{"embedded store", startEmbedded}
	single   = topology{"one Redis", func(b *bench) { startPair(b, harness.StartSingle(b.t, b.clock)) }}
	sentinel = topology{"Sentinel", func(b *bench) { startPair(b, harness.StartSentinel(b.t)) }}
	cluster  = topology{"Cluster", startCluster}
)

// site is the configuration of a gateway of the bench.
func (b *bench) site(store string) harness.Site {
	return harness.Site{Upstream: b.issuer.Addr, Store: store, AnswerTimeout: "2s", Limits: b.limits, Global: b.global}
}

// newGateway makes a gateway that knows where its runtime directory is.
func (b *bench) newGateway(s harness.Site) *harness.Gateway {
	g := harness.NewGateway(b.t, s)
	if err := os.Mkdir(g.Path("run"), 0o700); err != nil {
		b.t.Fatal(err)
	}
	g.Env = append(g.Env, "RUNTIME_DIRECTORY="+g.Path("run"))
	if b.own != nil && len(b.gateways) == 0 {
		g.FollowClock(b.own)
	}
	b.gateways = append(b.gateways, g)
	return g
}

func startEmbedded(b *bench) {
	g := b.newGateway(b.site(""))
	if b.disk {
		g.DiskOfItsOwn(g.Path("data"), smallDisk)
	}
	b.serve(g)
	b.keys = []harness.Credentials{g.NewKey(nil)}
}

// patientIO is how long a patient gateway waits for one answer of Redis.
const patientIO = time.Second

// patient are the options of such a gateway.
const patient = " {\nio_timeout 1s\nsettle_timeout 1500ms\nchange_timeout 3s\n}"

// startPair starts two gateways on the servers, known to the links as a and b. In
// the short mix they are patient: a command and its reply pass five processes, and
// beside other tests that takes longer than the default of 100 ms.
func startPair(b *bench, s *harness.Servers) {
	b.servers = s
	if !full && b.block == "" {
		b.block = patient
	}
	first, second := b.newGateway(b.site(s.Store+b.block)), b.newGateway(b.site(s.Store+b.block))
	second.WriteFile("master.key", first.ReadFile("master.key"))
	s.Name("a", first.Pid)
	s.Name("b", second.Pid)
	for _, g := range b.gateways {
		b.serve(g)
	}
	b.keys = []harness.Credentials{b.newKey()}
}

// serve starts a gateway and waits until it is ready, however long that takes.
func (b *bench) serve(g *harness.Gateway) {
	b.t.Helper()
	g.StartNotReady()
	eventually(b.t, "a gateway is ready", func() bool {
		answer, err := g.Try(&harness.Request{Method: http.MethodGet, Target: "/readyz"})
		return err == nil && answer.Status == http.StatusOK
	})
}

// newKey makes a key. The servers of a new deployment come to be known one by
// one, so it may take some time.
func (b *bench) newKey() (c harness.Credentials) {
	b.t.Helper()
	eventually(b.t, "a key can be made", func() bool {
		var ok bool
		c, ok = b.gateways[0].TryNewKey()
		return ok
	})
	return c
}

// startCluster makes the first key one of the first master, the second one of
// the second master.
func startCluster(b *bench) {
	startPair(b, harness.StartCluster(b.t))
	b.keys = []harness.Credentials{b.keyOf(0), b.keyOf(1)}
}

// keyOf makes a key of the master with that number.
func (b *bench) keyOf(master int) harness.Credentials {
	for {
		if c := b.newKey(); b.servers.Master(c) == master {
			return c
		}
	}
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it never happened that %s", what)
}

// flows waits until every gateway accepts requests of every key that are sent
// from now on and stamped with the time, and returns how long the first ones
// took, at the longest.
func (b *bench) flows() time.Duration {
	b.t.Helper()
	const some = 10
	begun := time.Now()
	var slowest time.Duration
	eventually(b.t, "all gateways accept requests", func() bool {
		type way struct{ gateway, key int }
		by, first := make(map[way]int), make(map[way]time.Time)
		for _, s := range b.load.since(begun) {
			if w := (way{s.gateway, s.key}); s.status == http.StatusOK && s.ahead == 0 {
				by[w]++
				if first[w].IsZero() || s.done.Before(first[w]) {
					first[w] = s.done
				}
			}
		}
		slowest = 0
		for g := range b.gateways {
			for k := range b.keys {
				if by[way{g, k}] < some {
					return false
				}
				slowest = max(slowest, first[way{g, k}].Sub(begun))
			}
		}
		return true
	})
	return slowest
}

// during lets the load go on for about so long: until it has sent as many
// requests as it does in that time.
func (b *bench) during(d time.Duration) {
	b.t.Helper()
	until := b.load.count() + int(d.Seconds()*float64(rate(b)))
	eventually(b.t, "the load goes on", func() bool { return b.load.count()+int(b.load.skipped.Load()) >= until })
}
