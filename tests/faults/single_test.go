package faults

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// gatewayNames are how the links know the gateways.
var gatewayNames = []string{"a", "b"}

// toServer and fromServer are the ways of the gateways' commands and of the
// replies.
func (b *bench) toServer() []harness.Route {
	return []harness.Route{{From: "a", To: b.failing().Name}, {From: "b", To: b.failing().Name}}
}

func (b *bench) fromServer() []harness.Route {
	return []harness.Route{{From: b.failing().Name, To: "a"}, {From: b.failing().Name, To: "b"}}
}

// failing is the server that faults meet.
func (b *bench) failing() *harness.RedisServer { return b.servers.All[0] }

// onLinks sets a fault of the network and returns what ends it.
func onLinks(f harness.LinkFault, routes func(b *bench) []harness.Route) func(b *bench) func() {
	return func(b *bench) func() {
		b.servers.Set(f, routes(b)...)
		return b.servers.Heal
	}
}

// bothWays are all ways between the gateways and the server.
func bothWays(b *bench) []harness.Route { return append(b.toServer(), b.fromServer()...) }

// stopped stops the server's process until the fault ends.
func stopped(b *bench) func() {
	b.failing().Signal(syscall.SIGSTOP)
	return func() { b.failing().Signal(syscall.SIGCONT) }
}

// killed kills the server; it is started again when the fault ends.
func killed(b *bench) func() {
	b.failing().Kill()
	return b.failing().Start
}

const (
	nothingLost = "503 while it lasts; nothing is lost, no floor"
	underFloor  = "503 while it lasts and up to 6 s after (replay floor)"
)

// ofSingle are the faults of one Redis server.
func ofSingle() []fault {
	return []fault{
		{name: "killed and started again", promise: underFloor, floor: afterLoss, strike: killed, lasts: time.Second, rounds: 2},
		{name: "stopped", promise: nothingLost, strike: stopped, lasts: 2 * time.Second, rounds: 3},
		{name: "cut off in both directions", promise: nothingLost, strike: onLinks(harness.LinkFault{Hold: true}, bothWays), lasts: 2 * time.Second, rounds: 3},
		{name: "commands held, then delivered late", promise: nothingLost, strike: onLinks(harness.LinkFault{Hold: true}, (*bench).toServer), lasts: 2 * time.Second, rounds: 3, seldom: true},
		{name: "replies held", promise: nothingLost, strike: onLinks(harness.LinkFault{Hold: true}, (*bench).fromServer), lasts: 2 * time.Second, rounds: 3},
		{name: "one gateway cut off", promise: "503 on that gateway; the other goes on", strike: oneCutOff, lasts: 2 * time.Second, rounds: 3, seldom: true},
		{name: "replies 150 ms late", promise: "503 for what waits longer than 100 ms", strike: onLinks(harness.LinkFault{Delay: 150 * time.Millisecond}, (*bench).fromServer), lasts: 3 * time.Second, rounds: 2, seldom: true},
		{name: "connections cut in mid-reply", promise: nothingLost, strike: onLinks(harness.LinkFault{Cut: true}, (*bench).fromServer), lasts: 2 * time.Second, rounds: 3},
		{name: "replies of other calls", promise: nothingLost, strike: crossed, lasts: 2 * time.Second, rounds: 3},
		{name: "connections forgotten by the network", promise: "503 for what was on its way; flows within 1 s", strike: forgotten, rounds: 5, seldom: true},
		{name: "100 idle connections forgotten by the network", promise: "the same, however large the pool is", prepare: withLargePool, strike: manyForgotten, seldom: true},
		{name: "FLUSHALL, then the old content restored", promise: underFloor + "; never 401", floor: afterLoss, strike: flushedAndRestored, lasts: 3 * time.Second},
		{name: "FLUSHALL, then the keys imported", promise: underFloor + "; never 401", floor: afterLoss, strike: flushedAndImported, lasts: 3 * time.Second, seldom: true},
		{name: "restarted with an older copy of its data", promise: underFloor, floor: afterLoss, strike: olderCopy, lasts: time.Second, seldom: true},
		{name: "everything restored from a copy of 2 s before", promise: underFloor, floor: afterLoss, strike: restored(2 * time.Second)},
		{name: "everything swapped with a copy of 2 s before", promise: underFloor, floor: afterLoss, strike: swapped, seldom: true},
		{name: "evicts for a moment", promise: "the keys that lost nonces: 503 up to 6 s (replay floor)", floor: afterLoss, strike: evicts, seldom: true},
		{name: "out of memory", promise: nothingLost, strike: outOfMemory, lasts: 3 * time.Second, rounds: 2, seldom: true},
		{name: "its clock 500 s ahead for 3 s", promise: underFloor, floor: afterLoss, prepare: withClock, strike: serverClock(500 * time.Second), lasts: 3 * time.Second, seldom: true},
		{name: "its clock 500 s ahead for 0.3 s", promise: underFloor, floor: afterLoss, prepare: withClock, strike: serverClock(500 * time.Second), lasts: 300 * time.Millisecond, rounds: 2, seldom: true},
		{name: "its clock 60 s behind for 3 s", promise: underFloor, floor: afterLoss, prepare: withClock, strike: serverClock(-60 * time.Second), lasts: 3 * time.Second, seldom: true},
	}
}

func TestSingle(t *testing.T) { runAll(t, single, ofSingle()) }

func oneCutOff(b *bench) func() {
	b.servers.Split(gatewayNames[:1], []string{b.failing().Name})
	return b.servers.Heal
}

// crossed gives calls the replies of others: each the one before it on any
// connection.
func crossed(b *bench) func() {
	var mu sync.Mutex
	var last []byte
	b.servers.Set(harness.LinkFault{Change: func(reply []byte) []byte {
		if !bytes.HasPrefix(reply, []byte("*3\r\n")) {
			return reply // not of a script
		}
		mu.Lock()
		defer mu.Unlock()
		own := bytes.Clone(reply)
		if last == nil {
			last = own
		}
		reply, last = last, own
		return reply
	}}, b.fromServer()...)
	return b.servers.Heal
}

func forgotten(b *bench) func() {
	for _, r := range b.toServer() {
		b.servers.Forget(r)
	}
	return nil
}

// idleConnections are those of both gateways together.
const idleConnections = 100

func withLargePool(b *bench) { b.block = " {\npool_size 60\n}" }

// manyForgotten lets the network forget the connections of large pools. To make
// them large, replies come a little later for a while.
func manyForgotten(b *bench) func() {
	b.servers.Set(harness.LinkFault{Delay: 30 * time.Millisecond}, b.fromServer()...)
	eventually(b.t, "the pools are large", func() bool {
		var burst sync.WaitGroup
		for to := range b.gateways {
			for range 60 {
				s := b.load.fresh(to, 0)
				burst.Go(func() { b.load.send(s) })
			}
		}
		burst.Wait()
		return b.failing().Clients() >= idleConnections
	})
	b.servers.Heal()
	b.flows()
	return forgotten(b)
}

// copied returns what puts everything back that the server holds now, key by key. The
// beats come first: docs/redis.md promises nothing for a key whose record and nonces are
// replaced while the beat is not.
func (b *bench) copied() (putBack func()) {
	old := make(map[string]any)
	names, _ := b.failing().Do("keys", "*").([]any)
	for _, name := range names {
		old[name.(string)] = b.failing().Do("dump", name)
	}
	return func() {
		for _, beats := range []bool{true, false} {
			for name, value := range old {
				if strings.HasSuffix(name, "beat") == beats {
					b.failing().Do("restore", name, 0, value, "replace")
				}
			}
		}
	}
}

// flushedAndRestored empties the server and puts back what it held two seconds
// before.
func flushedAndRestored(b *bench) func() {
	putBack := b.copied()
	b.during(2 * time.Second)
	b.failing().Do("flushall")
	return putBack
}

// restored puts back what the server held a while before.
func restored(age time.Duration) func(b *bench) func() {
	return func(b *bench) func() {
		putBack := b.copied()
		b.during(age)
		putBack()
		return nil
	}
}

// swapped exchanges the database with a copy of two seconds before.
func swapped(b *bench) func() {
	names, _ := b.failing().Do("keys", "*").([]any)
	for _, name := range names {
		b.failing().Do("copy", name, name, "db", 1, "replace")
	}
	b.during(2 * time.Second)
	b.failing().Do("swapdb", 0, 1)
	return nil
}

func flushedAndImported(b *bench) func() {
	b.failing().Do("flushall")
	return b.importKeys
}

// importKeys makes the keys anew as they were.
func (b *bench) importKeys() {
	for _, key := range b.keys {
		fields := harness.KeyFields(nil)
		fields["id"], fields["secret"] = key.ID, key.Secret
		eventually(b.t, "the key is imported", func() bool {
			status, answer := b.gateways[0].Admin(http.MethodPost, "/card-gateway/keys/import", "application/json", harness.JSONText(b.t, fields))
			return status/100 == 2 || status == http.StatusConflict && strings.Contains(answer, "exists")
		})
	}
}

// olderCopy lets the server persist nothing for two seconds, and kills it.
func olderCopy(b *bench) func() {
	b.failing().Do("config", "set", "appendonly", "no")
	b.during(2 * time.Second)
	return killed(b)
}

// evicts lets the server throw away what expires soonest, between two checks of
// the gateways if it can.
func evicts(b *bench) func() {
	r := b.failing()
	r.Do("config", "set", "maxmemory-policy", "volatile-ttl")
	r.Do("config", "set", "maxmemory", "1")
	_, _ = r.TryDo("set", "makes it evict", "x")
	r.Do("config", "set", "maxmemory", "0")
	r.Do("config", "set", "maxmemory-policy", "noeviction")
	return nil
}

func outOfMemory(b *bench) func() {
	b.failing().Do("config", "set", "maxmemory", "1")
	return func() { b.failing().Do("config", "set", "maxmemory", "0") }
}

func withClock(b *bench) { b.clock = harness.NewClock(b.t) }

func serverClock(off time.Duration) func(b *bench) func() {
	return func(b *bench) func() {
		b.clock.Shift(off)
		return func() { b.clock.Shift(0) }
	}
}
