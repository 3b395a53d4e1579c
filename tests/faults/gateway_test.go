package faults

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// ofGateway are the faults of the gateway's own process, with any store.
func ofGateway() []fault {
	return []fault{
		{name: "killed and started again", promise: "no answer until it serves again; nothing is lost", strike: gatewayKilled, rounds: 3},
		{name: "reloaded each second", promise: "a connection may end unanswered, before its request was judged", strike: reloaded, rounds: 4},
		{name: "has no file descriptors left", promise: "new connections wait", strike: noFiles, lasts: 3 * time.Second, rounds: 2, seldom: true},
		{name: "has no memory left", promise: "503, or it dies and is started again; nothing is lost", strike: noMemory, lasts: 3 * time.Second, rounds: 2, seldom: true},
	}
}

// ofPair are the faults of one of two gateways.
func ofPair() []fault {
	faults := ofGateway()
	for i := range faults {
		faults[i].name = "a gateway " + faults[i].name
	}
	return append(faults,
		fault{name: "a gateway's clock 6 s ahead for 3 s", promise: "503 on that gateway; the other goes on", prepare: withOwnClock, strike: ownClock(6 * time.Second), lasts: 3 * time.Second, rounds: 2, seldom: true},
		fault{name: "a gateway's clock 6 s behind for 3 s", promise: "503 on that gateway; the other goes on", prepare: withOwnClock, strike: ownClock(-6 * time.Second), lasts: 3 * time.Second, rounds: 2, seldom: true},
		fault{name: "a gateway's clock 400 s ahead for 3 s", promise: "503 on that gateway; the other goes on", prepare: withOwnClock, strike: ownClock(400 * time.Second), lasts: 3 * time.Second, seldom: true},
	)
}

// ofEmbedded are the faults of a gateway with the embedded store.
func ofEmbedded() []fault {
	return append(ofGateway(),
		fault{name: "its clock 120 s ahead for 3 s", promise: "nothing", prepare: withOwnClock, strike: ownClock(120 * time.Second), lasts: 3 * time.Second, seldom: true},
		fault{name: "its clock 400 s ahead for 3 s", promise: "401 while it lasts (outside the window), then 503 up to 6 s (replay floor)", floor: afterLoss, prepare: withOwnClock, strike: ownClock(400 * time.Second), lasts: 3 * time.Second, refuses401: true, seldom: true},
		fault{name: "its clock 60 s behind for 3 s", promise: "nothing", prepare: withOwnClock, strike: ownClock(-60 * time.Second), lasts: 3 * time.Second, seldom: true},
		fault{name: "disk full", promise: "503 when the journal needs room; nothing is lost", prepare: func(b *bench) { b.disk = true }, strike: diskFull, lasts: 80 * time.Second, seldom: true},
		fault{name: "killed, an older copy of its journal put back", promise: underFloor, floor: afterLoss, strike: olderJournal, rounds: 2, seldom: true},
		fault{name: "killed, its journal deleted", promise: underFloor, floor: afterLoss, strike: noJournal, seldom: true},
	)
}

func TestGateway(t *testing.T)  { runAll(t, single, ofPair()) }
func TestEmbedded(t *testing.T) { runAll(t, embedded, ofEmbedded()) }

func gatewayKilled(b *bench) func() {
	g := b.gateways[0]
	g.Kill()
	return func() { b.serve(g) }
}

// reloaded reloads all gateways at once, with a change that has no effect.
func reloaded(b *bench) func() {
	var all sync.WaitGroup
	for _, g := range b.gateways {
		all.Go(func() {
			s := g.Site
			s.Extra = "respond /even 204"
			if g.Site.Extra == s.Extra {
				s.Extra = "respond /odd 204"
			}
			if err := g.TryReload(s); err != nil {
				b.t.Error(err)
			}
		})
	}
	all.Wait()
	return nil
}

// noFiles stops the gateway from opening any more files.
func noFiles(b *bench) func() {
	g := b.gateways[0]
	return g.Limit(unix.RLIMIT_NOFILE, uint64(g.OpenFiles()))
}

// noMemory stops the gateway from getting more memory, and sends large bodies.
// A Go process that gets no memory ends. The end of the fault starts it again,
// as a service manager does.
func noMemory(b *bench) func() {
	g := b.gateways[0]
	g.Tolerate = []string{"fatal error: ", "panic: "}
	lift := g.Limit(unix.RLIMIT_AS, g.AddressSpace())
	body := `{"a":"` + strings.Repeat("x", 200<<10) + `"}`
	for range 400 {
		b.load.tasks.Go(func() { _, _ = g.Try(b.keys[0].Request("POST", "/api/v1/orders", body)) })
	}
	return func() {
		lift()
		if g.Died() {
			b.serve(g)
		}
	}
}

func withOwnClock(b *bench) { b.own = harness.NewClock(b.t) }

func ownClock(off time.Duration) func(b *bench) func() {
	return func(b *bench) func() {
		b.own.Shift(off)
		return func() { b.own.Shift(0) }
	}
}

// smallDisk holds some minutes of the bench's journal.
const smallDisk = 64 << 20

func diskFull(b *bench) func() {
	return b.gateways[0].FillDisk(b.gateways[0].Path("data"))
}

// olderJournal puts back a copy of the journal that is a second old.
func olderJournal(b *bench) func() {
	g := b.gateways[0]
	journal := g.Path("data/journal")
	old := b.t.TempDir() + "/journal"
	if err := os.CopyFS(old, os.DirFS(journal)); err != nil {
		b.t.Fatal(err)
	}
	b.during(time.Second)
	g.Kill()
	b.replace(journal, old)
	return func() { b.serve(g) }
}

func noJournal(b *bench) func() {
	g := b.gateways[0]
	g.Kill()
	b.replace(g.Path("data/journal"), b.t.TempDir())
	return func() { b.serve(g) }
}

// replace makes a directory a copy of another one.
func (b *bench) replace(dir, by string) {
	b.t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		b.t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(by)); err != nil {
		b.t.Fatal(err)
	}
}
