package redis

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// putReplicated stores a new key until a replica has it.
func putReplicated(t testing.TB, s *Store, r *store.Record) {
	t.Helper()
	put(t, s, r)
	awaitReplica(t, s, r)
}

// awaitReplica changes a key until the replica has that, and so all that was
// written before.
func awaitReplica(t testing.TB, s *Store, r *store.Record) {
	t.Helper()
	redistest.Eventually(t, 10*time.Second, "the replica acknowledges", func() bool {
		expect := r.Revision
		r.Revision = random()
		d, err := s.Put(ctx, r, store.PutOptions{Expect: expect})
		if err != nil {
			t.Fatal(err)
		}
		return d.Replicated != nil && *d.Replicated
	})
}

// A Sentinel failover to a replica that lacks the last nonces.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	set := redistest.OwnSentinel(t)
	a, b := pair(t, Options{Options: rpc.Options{SentinelMaster: "gw", SentinelAddrs: redistest.Addrs(set.Sentinels)}})
	redistest.NeedReplicas(t, 0, set.Master, set.Replica)
	r := newRecord()
	putReplicated(t, a, r)
	h := startHammer(t, []*Store{a, b}, []*store.Record{r})
	redistest.Eventually(t, 5*time.Second, "load", func() bool { return h.accepted.Load() > 50 })
	set.Replica.Signal(t, syscall.SIGSTOP)
	lost := acceptAhead(t, a, r)
	set.Master.Kill()
	set.Replica.Signal(t, syscall.SIGCONT)
	flows(t, a, r, 20*time.Second)
	flows(t, b, r, 5*time.Second)
	expectNotAgain(t, a, lost)
	expectNotAgain(t, b, lost)
	h.finish()
	if servers := a.Status(ctx).Details.Servers; len(servers) != 1 || servers[0].Address != set.Replica.Addr {
		t.Errorf("the status names %+v, want the master in use, %s", servers, set.Replica.Addr)
	}
	if d, err := a.Put(ctx, newRecord(), store.PutOptions{}); err != nil || d.Replicated == nil || *d.Replicated {
		t.Errorf("without a replica: %v, %v; want replicated false", d.Replicated, err)
	}
}

// A failover in a cluster to a replica that lacks the last nonces.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	nodes := redistest.OwnCluster(t)
	replica := redistest.LaunchClusterNode(t)
	t.Cleanup(func() { replica.Kill(); _ = os.RemoveAll(replica.Dir) })
	replica.Meet(t, nodes[0])
	redistest.Eventually(t, 10*time.Second, "the replica knows its master", func() bool {
		return replica.Client.Do(ctx, "cluster", "replicate", nodes[0].ID(t)).Err() == nil
	})
	for _, p := range append([]*redistest.Process{replica}, nodes...) {
		redistest.Eventually(t, 20*time.Second, "all know each other", func() bool {
			list, err := p.Client.ClusterNodes(ctx).Result()
			return err == nil && strings.Count(list, " connected") == 4 && strings.Count(list, "slave ") == 1
		})
	}
	redistest.Eventually(t, 10*time.Second, "the replica follows", func() bool {
		info, _ := replica.Client.Info(ctx, "replication").Result()
		return strings.Contains(info, "master_link_status:up")
	})
	redistest.NeedReplicas(t, 1, nodes[0], replica)
	a, b := pair(t, Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes[1:])}})
	redistest.NeedReplicas(t, 0, nodes[0], replica)
	r := newRecord()
	for redistest.Slot(r.ID) >= redistest.Slots/3 { // on the first node
		r = newRecord()
	}
	putReplicated(t, a, r)
	h := startHammer(t, []*Store{a, b}, []*store.Record{r, newKey(t, b), newKey(t, b)})
	redistest.Eventually(t, 5*time.Second, "load", func() bool { return h.accepted.Load() > 50 })
	replica.Signal(t, syscall.SIGSTOP)
	lost := acceptAhead(t, a, r)
	nodes[0].Kill()
	replica.Signal(t, syscall.SIGCONT)
	flows(t, a, r, 20*time.Second)
	flows(t, b, r, 5*time.Second)
	expectNotAgain(t, a, lost)
	expectNotAgain(t, b, lost)
	h.finish()
}

// While slots move between nodes, requests neither fail nor pass twice.
func TestSlotMigration(t *testing.T) {
	t.Parallel()
	nodes := redistest.OwnCluster(t)
	opt := Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes), IOTimeout: time.Second}, SettleTimeout: 3 * time.Second}
	a, b := pair(t, opt)
	var keys []*store.Record
	for range 3 {
		keys = append(keys, newKey(t, a))
	}
	h := startHammer(t, []*Store{a, b}, keys)
	redistest.Eventually(t, 5*time.Second, "load", func() bool { return h.accepted.Load() > 50 })
	for round := range 6 {
		for _, r := range keys {
			number := redistest.Slot(r.ID)
			moveSlot(t, nodes, number)
			if round == 3 { // also keys change meanwhile
				next := r.Clone()
				next.Revision = random()
				next.ID = "ck_test_" + random()
				put(t, b, next)
			}
		}
	}
	h.finish()
	if n := h.failed.Load(); n != 0 {
		t.Errorf("%d requests noticed", n)
	}
}

// moveSlot moves a slot key by key, as redis-cli does.
func moveSlot(t testing.TB, nodes []*redistest.Process, number int) {
	t.Helper()
	from, to := openSlot(t, nodes, number)
	for {
		keys, err := nodes[from].Client.ClusterGetKeysInSlot(context.Background(), number, 1).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		nodes[from].Do(t, "migrate", "127.0.0.1", nodes[to].Port, keys[0], 0, 5000)
	}
	for _, i := range []int{to, from, 3 - to - from} {
		nodes[i].Do(t, "cluster", "setslot", number, "node", nodes[to].ID(t))
	}
	redistest.Eventually(t, 30*time.Second, "the nodes agree on the slot", func() bool {
		return agreedOwner(t, nodes, number) == to
	})
}

// openSlot begins to move a slot from its owner to the next node. It waits
// until all nodes know the moves before. Otherwise the new owner might not know
// the epoch that it must exceed.
func openSlot(t testing.TB, nodes []*redistest.Process, number int) (from, to int) {
	t.Helper()
	redistest.Eventually(t, 30*time.Second, "the nodes agree", func() bool {
		from = agreedOwner(t, nodes, number)
		return from >= 0
	})
	to = (from + 1) % len(nodes)
	nodes[to].Do(t, "cluster", "setslot", number, "importing", nodes[from].ID(t))
	nodes[from].Do(t, "cluster", "setslot", number, "migrating", nodes[to].ID(t))
	return from, to
}

// agreedOwner returns the index of the node that owns the slot by the view of
// all nodes, or -1 while they disagree on that or on their epochs.
func agreedOwner(t testing.TB, nodes []*redistest.Process, number int) int {
	t.Helper()
	owner := slotOwner(t, nodes, nodes[0], number)
	own, current := map[string]bool{}, map[string]bool{}
	for _, p := range nodes {
		info, err := p.Client.ClusterInfo(ctx).Result()
		if err != nil || slotOwner(t, nodes, p, number) != owner {
			return -1
		}
		own[infoField(info, "cluster_my_epoch")] = true
		current[infoField(info, "cluster_current_epoch")] = true
	}
	if len(own) != len(nodes) || len(current) != 1 {
		return -1
	}
	return owner
}

func infoField(info, name string) string {
	_, value, _ := strings.Cut(info, name+":")
	value, _, _ = strings.Cut(value, "\r")
	return value
}

// slotOwner returns the index of the node that owns the slot by the view of one
// node.
func slotOwner(t testing.TB, nodes []*redistest.Process, eyes *redistest.Process, number int) int {
	t.Helper()
	ranges, err := eyes.Client.ClusterSlots(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ranges {
		if r.Start <= number && number <= r.End {
			for i, p := range nodes {
				if r.Nodes[0].Addr == p.Addr {
					return i
				}
			}
		}
	}
	return -1
}
