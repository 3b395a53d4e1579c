package redis

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A planned failover of one master proves that nothing is lost. So no floor
// rises, and the keys of the other masters are not affected.
func TestPlannedFailoverOfCluster(t *testing.T) {
	t.Parallel()
	nodes := replicatedCluster(t)
	a, b := pair(t, Options{ClusterAddrs: addrs(nodes[:3]), IOTimeout: time.Second, SettleTimeout: 2 * time.Second})
	own, other := keyOn(t, a, 0), keyOn(t, a, 1)
	acceptAhead(t, a, own)
	acceptAhead(t, b, other)
	floors := []int64{a.servers.view.Load().highest(), b.servers.view.Load().highest()}
	var streams []*stream
	for _, s := range []*Store{a, b} {
		streams = append(streams, startStream(s, own), startStream(s, other))
	}
	for _, st := range streams {
		st.flowsOn(t)
	}
	before := a.servers.view.Load().known
	nodes[3].promote(t)
	eventually(t, 20*time.Second, "the replica is used", func() bool {
		return a.servers.view.Load().known != before && strings.Count(a.servers.view.Load().known, ",") == 2
	})
	flows(t, a, own, 20*time.Second)
	flows(t, b, own, 20*time.Second)
	for i, s := range []*Store{a, b} {
		if floor := s.servers.view.Load().highest(); floor != floors[i] {
			t.Errorf("gateway %d: the replay floor rose to %v, fences %v", i, moment(floor), s.servers.view.Load().fences)
		}
	}
	for i, st := range streams {
		st.flowsOn(t)
		st.end(t, a)
		t.Logf("stream %d: %d accepted, longest gap %v, refused %v", i, len(st.sent), st.longest, st.refused)
		if i%2 == 1 && len(st.refused) > 0 {
			t.Errorf("a key of another master: %v", st.refused)
		}
		if st.refused[auth.ReplayFloor.String()] > 0 {
			t.Error("the replay floor refused correct requests")
		}
	}
}

// promote lets a replica of a cluster take over as docs/redis.md says: the servers
// give up after 5 s if they were too slow, and then the command is repeated.
func (p *process) promote(t testing.TB) {
	t.Helper()
	var asked time.Time
	eventually(t, 20*time.Second, "the replica is promoted", func() bool {
		if time.Since(asked) > 6*time.Second {
			asked = time.Now()
			_ = p.client.Do(ctx, "cluster", "failover").Err()
		}
		info, err := p.client.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
}

// A master that is killed fences its own slots, and no others.
func TestFenceOfOneServer(t *testing.T) {
	t.Parallel()
	nodes := replicatedCluster(t)
	a, b := pair(t, Options{ClusterAddrs: addrs(nodes[:3]), IOTimeout: time.Second, SettleTimeout: 2 * time.Second})
	own, other := keyOn(t, a, 0), keyOn(t, a, 2)
	acceptAhead(t, a, own)
	acceptAhead(t, b, other)
	eventually(t, 20*time.Second, "no floor is over the present", func() bool {
		v, err := b.Settle(ctx, newClaim(other))
		return err == nil && v.Reason == auth.Accepted
	})
	st := startStream(b, other)
	lost := ahead(newClaim(own), 2)
	expect(t, a, lost, auth.Accepted)
	nodes[0].kill()
	flows(t, a, own, 30*time.Second)
	flows(t, b, own, 10*time.Second)
	for _, s := range []*Store{a, b} {
		expectNotAgain(t, s, lost)
		v := s.servers.view.Load()
		if v.floorOf(own.ID) <= v.floorOf(other.ID) {
			t.Errorf("floors: %v of the server that fell, %v of another one; fences %v", moment(v.floorOf(own.ID)), moment(v.floorOf(other.ID)), v.fences)
		}
	}
	st.end(t, b)
	if len(st.refused) > 0 {
		t.Errorf("a key of another master: %v", st.refused)
	}
}

// A server can hand over only if this gateway used it in the same run.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	old, next := strings.Repeat("a", 40), strings.Repeat("b", 40)
	promoted := serverInfo{role: "master", replication: next, replication2: old, offset2: 100}
	for name, tt := range map[string]struct {
		demoted serverInfo
		want    bool
	}{
		"everything":      {serverInfo{role: "slave", replication: next, replication2: old, offset2: 100}, true},
		"less":            {serverInfo{role: "slave", replication: next, replication2: old, offset2: 90}, true},
		"more":            {serverInfo{role: "slave", replication: next, replication2: old, offset2: 101}, false},
		"nothing known":   {serverInfo{role: "slave", replication: next, replication2: old, offset2: -1}, false},
		"a full copy":     {serverInfo{role: "slave", replication: next, replication2: strings.Repeat("0", 40), offset2: -1}, false},
		"still a master":  {serverInfo{role: "master", replication: old, replication2: old, offset2: 90}, false},
		"another history": {serverInfo{role: "slave", replication: strings.Repeat("c", 40), replication2: old, offset2: 90}, false},
	} {
		if got := tt.demoted.handedOver(&promoted); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// A master accepts requests that its replica does not have, and the replica
// takes over. When the old master comes back as its replica, this is no proof
// that nothing was lost.
func TestTakeoverThatLostNonces(t *testing.T) {
	t.Parallel()
	nodes := replicatedCluster(t)
	a, b := pair(t, Options{ClusterAddrs: addrs(nodes[1:3]), IOTimeout: time.Second, SettleTimeout: 2 * time.Second})
	r := keyOn(t, a, 0)
	acceptAhead(t, b, r)
	awaitReplica(t, a, r) // else the replica may have nothing, which is another loss
	nodes[3].signal(t, syscall.SIGSTOP)
	lost := acceptAhead(t, a, r)
	nodes[0].signal(t, syscall.SIGSTOP)
	nodes[3].signal(t, syscall.SIGCONT)
	eventually(t, 20*time.Second, "the replica takes over", func() bool {
		_ = nodes[3].client.Do(ctx, "cluster", "failover", "takeover").Err()
		info, err := nodes[3].client.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
	nodes[0].signal(t, syscall.SIGCONT)
	eventually(t, 20*time.Second, "the old master follows", func() bool { return nodes[0].follows(t) })
	flows(t, a, r, 20*time.Second)
	flows(t, b, r, 20*time.Second)
	expectNotAgain(t, a, lost)
	expectNotAgain(t, b, lost)
}

// SENTINEL FAILOVER by the steps of docs/redis.md loses nothing either.
func TestPlannedFailoverOfSentinel(t *testing.T) {
	t.Parallel()
	set := ownSentinel(t)
	a, b := pair(t, Options{SentinelMaster: "gw", SentinelAddrs: addrs(set.sentinels), IOTimeout: time.Second, SettleTimeout: 2 * time.Second})
	r := newRecord()
	putReplicated(t, a, r)
	acceptAhead(t, b, r)
	streams := []*stream{startStream(a, r), startStream(b, r)}
	for _, st := range streams {
		st.flowsOn(t)
	}
	set.master.do(t, "client", "pause", 10000, "write")
	set.sentinels[0].do(t, "sentinel", "failover", "gw")
	eventually(t, 20*time.Second, "the replica is promoted", func() bool {
		info, err := set.replica.client.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
	set.master.do(t, "replicaof", "127.0.0.1", fmt.Sprint(set.replica.port))
	flows(t, a, r, 20*time.Second)
	flows(t, b, r, 20*time.Second)
	for i, st := range streams {
		st.flowsOn(t)
		st.end(t, a)
		t.Logf("stream %d: %d accepted, longest gap %v, refused %v", i, len(st.sent), st.longest, st.refused)
		if st.refused[auth.ReplayFloor.String()] > 0 {
			t.Error("the replay floor refused correct requests")
		}
	}
}
