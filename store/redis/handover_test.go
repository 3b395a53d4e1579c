package redis

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// A planned failover of one master proves that nothing is lost. So no floor
// rises, and the keys of the other masters are not affected.
func TestPlannedFailoverOfCluster(t *testing.T) {
	t.Parallel()
	nodes := replicatedCluster(t)
	a, b := pair(t, Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes[:3]), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
	own, other := keyOn(t, a, 0), keyOn(t, a, 1)
	acceptAhead(t, a, own)
	acceptAhead(t, b, other)
	floors := []int64{a.servers.View().Highest(), b.servers.View().Highest()}
	var streams []*stream
	for _, s := range []*Store{a, b} {
		streams = append(streams, startStream(s, own), startStream(s, other))
	}
	for _, st := range streams {
		st.flowsOn(t)
	}
	before := a.servers.View().Known
	nodes[3].Promote(t)
	redistest.Eventually(t, 20*time.Second, "the replica is used", func() bool {
		return a.servers.View().Known != before && strings.Count(a.servers.View().Known, ",") == 2
	})
	flows(t, a, own, 20*time.Second)
	flows(t, b, own, 20*time.Second)
	for i, s := range []*Store{a, b} {
		if floor := s.servers.View().Highest(); floor != floors[i] {
			t.Errorf("gateway %d: the replay floor rose to %v, view %+v", i, rpc.Moment(floor), s.servers.View())
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

// A master that is killed fences its own slots, and no others.
func TestFenceOfOneServer(t *testing.T) {
	t.Parallel()
	nodes := replicatedCluster(t)
	a, b := pair(t, Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes[:3]), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
	redistest.NeedReplicas(t, 0, nodes[0], nodes[3])
	own, other := keyOn(t, a, 0), keyOn(t, a, 2)
	acceptAhead(t, a, own)
	acceptAhead(t, b, other)
	redistest.Eventually(t, 20*time.Second, "no floor is over the present", func() bool {
		v, err := b.Settle(ctx, newClaim(other))
		return err == nil && v.Reason == auth.Accepted
	})
	st := startStream(b, other)
	lost := ahead(newClaim(own), 2)
	expect(t, a, lost, auth.Accepted)
	nodes[0].Kill()
	flows(t, a, own, 30*time.Second)
	flows(t, b, own, 10*time.Second)
	for _, s := range []*Store{a, b} {
		expectNotAgain(t, s, lost)
		v := s.servers.View()
		if v.FloorOf(own.ID) <= v.FloorOf(other.ID) {
			t.Errorf("floors: %v of the server that fell, %v of another one; view %+v", rpc.Moment(v.FloorOf(own.ID)), rpc.Moment(v.FloorOf(other.ID)), v)
		}
	}
	st.end(t, b)
	if len(st.refused) > 0 {
		t.Errorf("a key of another master: %v", st.refused)
	}
}

// A master accepts requests that its replica does not have, and the replica
// takes over. When the old master comes back as its replica, this is no proof
// that nothing was lost.
func TestTakeoverThatLostNonces(t *testing.T) {
	t.Parallel()
	nodes := replicatedCluster(t)
	a, b := pair(t, Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes[1:3]), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
	redistest.NeedReplicas(t, 0, nodes[0], nodes[3])
	r := keyOn(t, a, 0)
	acceptAhead(t, b, r)
	awaitReplica(t, a, r) // else the replica may have nothing, which is another loss
	nodes[3].Signal(t, syscall.SIGSTOP)
	lost := acceptAhead(t, a, r)
	nodes[0].Signal(t, syscall.SIGSTOP)
	nodes[3].Signal(t, syscall.SIGCONT)
	redistest.Eventually(t, 20*time.Second, "the replica takes over", func() bool {
		_ = nodes[3].Client.Do(ctx, "cluster", "failover", "takeover").Err()
		info, err := nodes[3].Client.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
	nodes[0].Signal(t, syscall.SIGCONT)
	redistest.Eventually(t, 20*time.Second, "the old master follows", func() bool { return nodes[0].Follows(t) })
	flows(t, a, r, 20*time.Second)
	flows(t, b, r, 20*time.Second)
	expectNotAgain(t, a, lost)
	expectNotAgain(t, b, lost)
}

// SENTINEL FAILOVER by the steps of docs/redis.md loses nothing either.
func TestPlannedFailoverOfSentinel(t *testing.T) {
	t.Parallel()
	set := redistest.OwnSentinel(t)
	a, b := pair(t, Options{Options: rpc.Options{SentinelMaster: "gw", SentinelAddrs: redistest.Addrs(set.Sentinels), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
	redistest.NeedReplicas(t, 0, set.Master, set.Replica)
	r := newRecord()
	putReplicated(t, a, r)
	acceptAhead(t, b, r)
	streams := []*stream{startStream(a, r), startStream(b, r)}
	for _, st := range streams {
		st.flowsOn(t)
	}
	set.Master.Do(t, "client", "pause", 10000, "write")
	set.Sentinels[0].Do(t, "sentinel", "failover", "gw")
	redistest.Eventually(t, 20*time.Second, "the replica is promoted", func() bool {
		info, err := set.Replica.Client.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
	set.Master.Do(t, "replicaof", "127.0.0.1", fmt.Sprint(set.Replica.Port))
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
