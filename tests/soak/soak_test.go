// Package soak watches what the gateway's process holds while it works.
package soak

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A group is a kind of work after which nothing may be left.
type group struct {
	name string
	work func(t testing.TB, g *harness.Gateway, key harness.Credentials)
}

// atOnce is how many requests are sent at once, and the most connections to the issuer
// that the gateway may keep.
const atOnce = 50

var groups = []group{
	{"accepted", func(t testing.TB, g *harness.Gateway, key harness.Credentials) {
		for range 50 {
			harness.WantAccepted(t, g.Send(t, key.Post()))
		}
	}},
	{"refused", func(t testing.TB, g *harness.Gateway, key harness.Credentials) {
		for range 20 {
			g.Send(t, key.Get().Drop("X-Nonce"))
			g.Send(t, harness.Credentials{ID: "nobody", Secret: "x"}.Get())
			g.Send(t, key.Request("GET", "/api/v1//orders", ""))
			g.Send(t, &harness.Request{Method: "GET", Target: "/elsewhere"})
		}
	}},
	{"cut off", func(t testing.TB, g *harness.Gateway, key harness.Credentials) {
		for range 20 {
			w := g.Connect(t)
			r := key.Post()
			w.WriteText(t, r.Head()+r.Body[:3])
			_ = w.Close()
			g.Connect(t).WriteText(t, "GET / HT")
		}
	}},
	{"at once", func(t testing.TB, g *harness.Gateway, key harness.Credentials) {
		requests := make([]*harness.Request, atOnce)
		for i := range requests {
			requests[i] = key.Get()
		}
		g.AtOnce(t, requests)
	}},
	{"reloads", func(t testing.TB, g *harness.Gateway, key harness.Credentials) {
		for i := range 4 {
			s := g.Site
			s.Extra = fmt.Sprintf("header X-Round %d", i)
			g.Reload(s)
			harness.WantAccepted(t, g.Send(t, key.Get()))
		}
	}},
}

// TestNothingIsLeft repeats each group of requests and reloads, and requires that
// the process gives back the goroutines and files of a round. The first round of a
// group may keep what every later one uses again.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			u := harness.StartUpstream(t)
			g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Limits: "dry_run"})
			key := g.NewKey(nil)
			round := func() { t.Run("round", func(t *testing.T) { group.work(t, g, key) }) }
			round()
			round()
			before := g.Resources(t)
			for range 3 {
				round()
			}
			const slack = 2
			var after harness.Resources
			harness.Eventually(t, "goroutines and files come back", func() bool {
				after = g.Resources(t)
				return after.Goroutines <= before.Goroutines+slack && after.Files <= before.Files+slack && after.Issuers <= atOnce
			})
			if grown := after.Heap - before.Heap; grown > 16<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
		})
	}
}

// A moment is what the process held at a time.
type moment struct {
	minutes float64
	harness.Resources
}

// slope returns the growth of a value in a minute, by least squares.
func slope(all []moment, of func(*moment) float64) float64 {
	var n, x, y, xx, xy float64
	for i := range all {
		m, v := all[i].minutes, of(&all[i])
		n, x, y, xx, xy = n+1, x+m, y+v, xx+m*m, xy+m*v
	}
	if d := n*xx - x*x; d != 0 {
		return (n*xy - x*y) / d
	}
	return 0
}

// TestSlope checks the arithmetic.
func TestSlope(t *testing.T) {
	t.Parallel()
	var all []moment
	for i := range 10 {
		all = append(all, moment{minutes: float64(i) / 2, Resources: harness.Resources{Files: 7 + 3*i}})
	}
	if got := slope(all, func(m *moment) float64 { return float64(m.Files) }); got < 5.999 || got > 6.001 {
		t.Errorf("the slope is %v, want 6", got)
	}
}

// TestSoak sends correct requests for the time in CARD_TEST_SOAK at the rate in
// CARD_TEST_SOAK_RATE, and requires that what the process holds does not grow
// after the first quarter. It writes the slopes into the page that
// CARD_TEST_SOAK_PAGE names.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("CARD_TEST_SOAK"))
	if err != nil {
		t.Skip("make soak runs it; CARD_TEST_SOAK is how long")
	}
	rate := 500
	_, _ = fmt.Sscan(os.Getenv("CARD_TEST_SOAK_RATE"), &rate)
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Limits: "dry_run"})
	key := g.NewKey(nil)
	var sent, failed atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	const senders = 8
	for range senders {
		all.Go(func() { send(g, key, time.NewTicker(senders*time.Second/time.Duration(rate)), stop, &sent, &failed) })
	}
	began := time.Now()
	var moments []moment
	for time.Since(began) < length {
		time.Sleep(max(length/120, time.Second)) // the work itself
		u.Took()                                 // the test must not keep what it received
		moments = append(moments, moment{time.Since(began).Minutes(), g.Resources(t)})
	}
	close(stop)
	all.Wait()
	kept := moments[len(moments)/4:]
	report(t, kept, length, sent.Load())
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), sent.Load())
	}
}

// send sends requests over one connection, one at each tick.
func send(g *harness.Gateway, key harness.Credentials, tick *time.Ticker, stop <-chan struct{}, sent, failed *atomic.Int64) {
	defer tick.Stop()
	wire, err := g.Dial("")
	for ; ; <-tick.C {
		select {
		case <-stop:
			if err == nil {
				_ = wire.Close()
			}
			return
		default:
		}
		sent.Add(1)
		if err == nil {
			var answer *harness.Response
			if answer, err = wire.Exchange(key.Post()); err == nil && answer.Status == 200 {
				continue
			}
			_ = wire.Close()
		}
		failed.Add(1)
		wire, err = g.Dial("")
	}
}

// The most that may be added in a minute. A nonce lives for five minutes and more,
// so memory settles late.
const (
	mostCount = 0.5
	mostBytes = 512 << 10
)

// report checks the slopes and writes them.
func report(t *testing.T, kept []moment, length time.Duration, sent int64) {
	t.Helper()
	last := kept[len(kept)-1]
	var table strings.Builder
	fmt.Fprintf(&table, "%s, %v, %d requests.\n\n| of the process | at the end | growth in a minute |\n|---|---|---|\n", time.Now().UTC().Format(time.DateOnly), length, sent)
	for _, row := range []struct {
		name, unit string
		most       float64
		of         func(*moment) float64
	}{
		{"goroutines", "", mostCount, func(m *moment) float64 { return float64(m.Goroutines) }},
		{"open files", "", mostCount, func(m *moment) float64 { return float64(m.Files + m.Issuers) }},
		{"heap", " KiB", mostBytes / 1024, func(m *moment) float64 { return float64(m.Heap) / 1024 }},
		{"resident memory", " KiB", mostBytes / 1024, func(m *moment) float64 { return float64(m.Resident) / 1024 }},
	} {
		growth := slope(kept, row.of)
		fmt.Fprintf(&table, "| %s | %.0f%s | %+.2f%s |\n", row.name, row.of(&last), row.unit, growth, row.unit)
		if growth > row.most {
			t.Errorf("%s grow by %.2f%s in a minute, more than %.2f", row.name, growth, row.unit, row.most)
		}
	}
	t.Log(table.String())
	page := os.Getenv("CARD_TEST_SOAK_PAGE")
	if page == "" {
		return
	}
	const begin, end = "<!-- begin: written by make soak -->\n", "<!-- end: written by make soak -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opens := strings.Cut(string(text), begin)
	_, after, closes := strings.Cut(rest, end)
	if !opens || !closes {
		t.Fatalf("%s has no place for the table", page)
	}
	if err := os.WriteFile(page, []byte(before+begin+"\n"+table.String()+"\n"+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
