package faults

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// replicas are those of the server that faults meet.
func (b *bench) replicas() []*harness.RedisServer {
	if len(b.servers.Sentinels) > 0 {
		return b.servers.All[1:3]
	}
	return b.servers.All[3:5]
}

// others are all processes but the server that faults meet and the gateways.
func (b *bench) others() (names []string) {
	for _, r := range slices.Concat(b.servers.All[1:], b.servers.Sentinels) {
		names = append(names, r.Name)
	}
	return names
}

const (
	failover = "503 until another master serves, and up to 6 s after (replay floor)"
	inACut   = "503 in the half with the old master after 4 s; in the other until a new master serves, and up to 6 s after (replay floor)"
	planned  = "503 for at most 3 s; no floor"

	// joining is how long sentinels may take to give the promoted master its replicas
	// back when a network is whole again. Until then it has too few.
	joining = 15 * time.Second
)

// ofReplicated are the faults of a master with replicas.
func ofReplicated() []fault {
	return []fault{
		{name: "master killed", promise: failover, floor: afterLoss, strike: func(b *bench) func() { b.failing().Kill(); return nil }, restore: startedAgain},
		{name: "master stopped for 15 s", promise: failover, floor: afterLoss, strike: stopped, lasts: 15 * time.Second, restore: follows, seldom: true},
		{name: "cut in two, a gateway with the old master", promise: inACut, floor: afterLoss, strike: cutInTwo, lasts: 20 * time.Second, restore: follows, seldom: true},
		{name: "cut in two, a replica with the old master", promise: "the half with both goes on, 503 in the other until the servers have joined again, and up to 6 s after (replay floor)", floor: afterLoss + joining, strike: cutWithReplica, lasts: 20 * time.Second, restore: follows, seldom: true},
		{name: "cut in two, that gateway killed meanwhile", promise: inACut, floor: afterLoss, strike: cutInTwoAndKilled, lasts: 20 * time.Second, restore: follows, seldom: true},
		{name: "master not heard by the other servers", promise: inACut, floor: afterLoss, strike: masterNotHeard, lasts: 20 * time.Second, restore: follows, seldom: true},
		{name: "master does not hear the other servers", promise: inACut, floor: afterLoss, strike: masterDeaf, lasts: 20 * time.Second, restore: follows, seldom: true},
		{name: "a replica without the last 2 s promoted", promise: failover, floor: afterLoss, strike: promotedWithLag, restore: startedAgain, seldom: true},
		{name: "everything restored from a copy of 6 s before", promise: underFloor, floor: afterLoss, strike: restored(6 * time.Second), seldom: true},
		{name: "all replicas of the master killed", promise: nothingLost, strike: replicasKilled, lasts: 5 * time.Second, seldom: true},
	}
}

func TestSentinel(t *testing.T) {
	runAll(t, sentinel, append(ofReplicated(),
		fault{name: "everything swapped with a copy of 2 s before", promise: underFloor, floor: afterLoss, strike: swapped, seldom: true},
		fault{name: "planned failover", promise: planned, gap: 3 * time.Second, strike: plannedBySentinel, restore: follows, seldom: true},
		fault{name: "all sentinels killed", promise: "503 for what waits too long for a new connection; nothing is lost, no floor", strike: sentinelsKilled, lasts: 5 * time.Second, seldom: true},
	))
}

func TestCluster(t *testing.T) {
	runAll(t, cluster, append(ofReplicated(),
		fault{name: "planned failover", promise: planned + "; other keys do not notice", gap: 3 * time.Second, alone: true, strike: plannedByReplica, restore: follows},
		fault{name: "one master flushed, then the old content restored", promise: underFloor + "; never 401; the keys of other masters notice the floor alone", floor: afterLoss, strike: flushedAndRestored, lasts: 3 * time.Second, seldom: true},
	))
}

// The first start of a new cluster while one of its masters is out of reach.
func TestNewClusterWithoutOneMaster(t *testing.T) {
	if !full {
		t.Parallel()
	}
	b := &bench{t: t, issuer: harness.StartUpstream(t)}
	s := harness.StartCluster(t)
	g := b.newGateway(b.site(s.Store))
	s.Name("a", g.Pid)
	s.Split([]string{"a"}, []string{"master-2"})
	g.StartNotReady()
	s.Heal()
	eventually(t, "the gateway is ready", func() bool {
		answer, err := g.Try(&harness.Request{Method: "GET", Target: "/readyz"})
		return err == nil && answer.Status == http.StatusOK
	})
	eventually(t, "a key can be made", func() bool {
		_, made := g.TryNewKey()
		return made
	})
}

// follows waits until the old master is a replica that is up to date.
func follows(b *bench) {
	eventually(b.t, "the old master follows", func() bool {
		info, err := b.failing().TryDo("info", "replication")
		text, _ := info.(string)
		return err == nil && strings.Contains(text, "role:slave") && strings.Contains(text, "master_link_status:up")
	})
}

func startedAgain(b *bench) {
	b.failing().Start()
	follows(b)
}

func cutInTwo(b *bench) func() {
	b.servers.Split([]string{"a", b.failing().Name}, append(b.others(), "b"))
	return b.servers.Heal
}

// cutWithReplica leaves the old master one of its two replicas. The other one is
// promoted, and has too few.
func cutWithReplica(b *bench) func() {
	with := b.replicas()[0].Name
	b.servers.Split([]string{"a", b.failing().Name, with}, append(slices.DeleteFunc(b.others(), func(name string) bool { return name == with }), "b"))
	return b.servers.Heal
}

// cutInTwoAndKilled kills the gateway of the smaller half before the network is
// whole again.
func cutInTwoAndKilled(b *bench) func() {
	heal := cutInTwo(b)
	b.during(5 * time.Second)
	b.gateways[0].Kill()
	return func() {
		heal()
		b.serve(b.gateways[0])
	}
}

// betweenServers are the ways from the failing server to all others, gateways
// left out, and those back.
func (b *bench) betweenServers() (from, to []harness.Route) {
	for _, name := range b.others() {
		from = append(from, harness.Route{From: b.failing().Name, To: name})
		to = append(to, harness.Route{From: name, To: b.failing().Name})
	}
	return from, to
}

func masterNotHeard(b *bench) func() {
	from, _ := b.betweenServers()
	b.servers.Set(harness.LinkFault{Hold: true}, from...)
	return b.servers.Heal
}

func masterDeaf(b *bench) func() {
	_, to := b.betweenServers()
	b.servers.Set(harness.LinkFault{Hold: true}, to...)
	return b.servers.Heal
}

// promotedWithLag keeps the last writes from the replicas and kills the master.
// What was on its way dies with it.
func promotedWithLag(b *bench) func() {
	for _, r := range b.replicas() {
		b.servers.Set(harness.LinkFault{Hold: true}, harness.Route{From: b.failing().Name, To: r.Name})
	}
	b.during(2 * time.Second)
	for _, r := range b.replicas() {
		b.servers.Forget(harness.Route{From: r.Name, To: b.failing().Name})
	}
	b.failing().Kill()
	b.servers.Heal()
	return nil
}

func replicasKilled(b *bench) func() {
	for _, r := range b.replicas() {
		r.Kill()
	}
	return func() {
		for _, r := range b.replicas() {
			r.Start()
		}
	}
}

func sentinelsKilled(b *bench) func() {
	for _, s := range b.servers.Sentinels {
		s.Kill()
	}
	return func() {
		for _, s := range b.servers.Sentinels {
			s.Start()
		}
	}
}

// plannedBySentinel follows the steps of docs/redis.md.
func plannedBySentinel(b *bench) func() {
	b.failing().Do("client", "pause", 10000, "write")
	b.servers.Sentinels[0].Do("sentinel", "failover", "gw")
	var promoted *harness.RedisServer
	eventually(b.t, "a replica is promoted", func() bool {
		at := slices.IndexFunc(b.replicas(), func(r *harness.RedisServer) bool { return r.Role() == "master" })
		if at >= 0 {
			promoted = b.replicas()[at]
		}
		return at >= 0
	})
	_, port, _ := net.SplitHostPort(b.servers.Addr(promoted))
	b.failing().Do("replicaof", "127.0.0.1", port)
	return nil
}

// plannedByReplica is the way of a cluster.
func plannedByReplica(b *bench) func() {
	b.replicas()[0].Do("cluster", "failover")
	return nil
}
