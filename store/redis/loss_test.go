package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// signal sends a signal to a server that the test started.
func (p *process) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ahead is a claim stamped ahead of the clock.
func ahead(c *store.Claim, seconds int64) *store.Claim {
	c.Timestamp += seconds
	return c
}

func pair(t testing.TB, opt Options) (a, b *Store) {
	t.Helper()
	return open(t, opt), open(t, opt)
}

// After a restart that lost nonces, what was accepted before is refused by
// rule 7 on every gateway, uncounted, and new requests flow.
func TestRestartThatLostNonces(t *testing.T) {
	t.Parallel()
	p := own(t, false)
	a, b := pair(t, Options{URL: p.url()})
	r := newKey(t, a)
	expect(t, b, newClaim(r), auth.Accepted)
	p.do(t, "save")
	lost := ahead(newClaim(r), 4)
	expect(t, a, lost, auth.Accepted)
	p.kill()
	expectUnavailable(t, a, newClaim(r))
	p.start(t)
	flows(t, a, r, 3*time.Second)
	flows(t, b, r, 3*time.Second)
	for _, s := range []*Store{a, b, open(t, Options{URL: p.url()})} {
		c := again(lost)
		c.Failed |= auth.RuleSignature // would count
		if v := expect(t, s, c, auth.TimestampOutOfWindow); v.Failures != 0 {
			t.Errorf("a refusal by the replay floor was counted")
		}
		expect(t, s, again(lost), auth.TimestampOutOfWindow)
		expect(t, s, ahead(newClaim(r), 6), auth.Accepted)
	}
}

// A restart that lost nothing is treated alike: nobody can know.
func TestRestartUnderLoad(t *testing.T) {
	t.Parallel()
	p := own(t, false, "--appendonly", "yes")
	a, b := pair(t, Options{URL: p.url()})
	r := newKey(t, a)
	h := startHammer(t, []*Store{a, b}, []*store.Record{r})
	for range 2 {
		time.Sleep(100 * time.Millisecond) // load, not time
		p.kill()
		p.start(t)
		flows(t, a, r, 3*time.Second)
		flows(t, b, r, 3*time.Second)
	}
	h.finish()
}

// A stall loses nothing, so there is no replay floor after it.
func TestStall(t *testing.T) {
	p := own(t, false)
	a, b := pair(t, Options{URL: p.url()})
	r := newKey(t, a)
	c := newClaim(r)
	expect(t, a, c, auth.Accepted)
	p.signal(t, syscall.SIGSTOP)
	for range breakerFailures {
		answeredInTime(t, inTime, func() { expectUnavailable(t, a, newClaim(r)) })
	}
	answeredInTime(t, inTimeOpen, func() { expectUnavailable(t, a, newClaim(r)) })
	p.signal(t, syscall.SIGCONT)
	flows(t, a, r, 3*time.Second)
	flows(t, b, r, 3*time.Second)
	expect(t, a, newClaim(r), auth.Accepted)
	expect(t, b, again(c), auth.ReplayedNonce)
}

func TestScriptFlushUnderLoad(t *testing.T) {
	t.Parallel()
	p := own(t, false)
	a, b := pair(t, Options{URL: p.url()})
	r := newKey(t, a)
	h := startHammer(t, []*Store{a, b}, []*store.Record{r})
	for range 50 {
		p.do(t, "script", "flush")
		time.Sleep(2 * time.Millisecond) // load, not time
	}
	h.finish()
	if n := h.failed.Load(); n != 0 {
		t.Errorf("%d requests noticed", n)
	}
}

// After FLUSHALL an unknown key is no reason for 401. A key that is written
// again accepts nothing that was stamped before, on every gateway.
func TestFlush(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{"single", "cluster"} {
		t.Run(topology, func(t *testing.T) {
			var nodes []*process
			var opt Options
			if topology == "single" {
				nodes = []*process{own(t, false)}
				opt = Options{URL: nodes[0].url()}
			} else {
				nodes = ownCluster(t)
				opt = Options{ClusterAddrs: addrs(nodes)}
			}
			a, b := pair(t, opt)
			r := newKey(t, a)
			c := ahead(newClaim(r), 4)
			expect(t, b, c, auth.Accepted)
			for _, p := range nodes {
				p.do(t, "flushall")
			}
			if v, err := a.Settle(ctx, newClaim(r)); err == nil && !v.Stale || err != nil && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%+v, %v; want stale or ErrUnavailable", v, err)
			}
			for _, s := range []*Store{a, b} {
				if _, err := s.Get(ctx, r.ID); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("Get: %v, want ErrUnavailable", err)
				}
				if _, err := s.Meta(ctx, "name"); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("Meta: %v, want ErrUnavailable", err)
				}
				eventually(t, 3*time.Second, "not ready", func() bool { return errors.Is(s.Ready(ctx), errEmptied) })
			}
			put(t, a, r)
			for _, s := range []*Store{a, b} {
				expect(t, s, again(c), auth.TimestampOutOfWindow)
				eventually(t, 3*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
				expect(t, s, again(c), auth.TimestampOutOfWindow)
				expect(t, s, ahead(newClaim(r), 20), auth.Accepted)
				if _, err := s.Get(ctx, "ck_test_other"); !errors.Is(err, store.ErrNotFound) && topology == "single" {
					t.Errorf("Get of an unknown key: %v, want ErrNotFound", err)
				}
			}
		})
	}
}

// A server that begins to evict is not used, and what it evicted raises the
// floor.
func TestEviction(t *testing.T) {
	t.Parallel()
	p := own(t, false)
	s := open(t, Options{URL: p.url()})
	r := newKey(t, s)
	c := newClaim(r)
	expect(t, s, c, auth.Accepted)
	p.do(t, "config", "set", "maxmemory-policy", "allkeys-lru")
	eventually(t, 3*time.Second, "unfit", func() bool {
		var unfit *UnfitError
		return errors.As(s.Ready(ctx), &unfit)
	})
	expectUnavailable(t, s, newClaim(r))
	var unfit *UnfitError
	late, err := New(Options{URL: p.url()})
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if err := late.Start(ctx); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("Start: %v, want an UnfitError that says noeviction", err)
	}
	p.do(t, "set", "victim", strings.Repeat("x", 1<<20))
	p.do(t, "config", "set", "maxmemory-policy", "volatile-ttl")
	p.do(t, "config", "set", "maxmemory", "1")
	p.client.Set(ctx, "another", "x", time.Hour) // makes it evict
	p.do(t, "config", "set", "maxmemory", "0")
	p.do(t, "config", "set", "maxmemory-policy", "noeviction")
	flows(t, s, r, 3*time.Second)
	expect(t, s, again(c), auth.TimestampOutOfWindow)
}

func TestUnfitServers(t *testing.T) {
	t.Parallel()
	master := sharedSentinel(t).master
	tests := map[string]struct{ config []string }{
		"replica":  {[]string{"--replicaof", fmt.Sprintf("127.0.0.1 %d", master.port)}},
		"password": {[]string{"--requirepass", "another"}},
		"evicting": {[]string{"--maxmemory-policy", "allkeys-lru"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &process{}
			if name == "password" { // launch would wait for an answer
				p = own(t, false)
				p.do(t, "config", "set", "requirepass", "another")
			} else {
				p = own(t, false, tt.config...)
			}
			s, err := New(Options{URL: p.url(), Password: "wrong"})
			if name != "password" {
				s, err = New(Options{URL: p.url()})
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var unfit *UnfitError
			if err := s.Start(ctx); !errors.As(err, &unfit) {
				t.Errorf("Start: %v, want an UnfitError", err)
			}
		})
	}
}

// A gateway whose clock is off refuses instead of letting nonces die early.
func TestClockDifference(t *testing.T) {
	s := open(t, single(t))
	r := newKey(t, s)
	for _, off := range []time.Duration{-6 * time.Second, 6 * time.Second} {
		c := newClaim(r)
		c.Now = c.Now.Add(off)
		expectUnavailable(t, s, c)
	}
	for _, off := range []time.Duration{-4 * time.Second, 4 * time.Second} {
		c := newClaim(r)
		c.Now = c.Now.Add(off)
		expect(t, s, c, auth.Accepted)
	}
}

// putReplicated stores a new key until a replica has it.
func putReplicated(t testing.TB, s *Store, r *store.Record) {
	t.Helper()
	d := put(t, s, r)
	eventually(t, 10*time.Second, "the replica acknowledges", func() bool {
		if d.Replicated != nil && *d.Replicated {
			return true
		}
		expect := r.Revision
		r.Revision = random()
		var err error
		if d, err = s.Put(ctx, r, store.PutOptions{Expect: expect}); err != nil {
			t.Fatal(err)
		}
		return false
	})
}

// A Sentinel failover to a replica that lacks the last nonces.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	set := launchSentinel(t)
	t.Cleanup(func() {
		for _, p := range set.processes() {
			if p.client != nil {
				p.kill()
			}
			_ = os.RemoveAll(p.dir)
		}
	})
	a, b := pair(t, Options{SentinelMaster: "gw", SentinelAddrs: addrs(set.sentinels)})
	r := newRecord()
	putReplicated(t, a, r)
	h := startHammer(t, []*Store{a, b}, []*store.Record{r})
	eventually(t, 5*time.Second, "load", func() bool { return h.accepted.Load() > 50 })
	set.replica.signal(t, syscall.SIGSTOP)
	lost := ahead(newClaim(r), 4)
	expect(t, a, lost, auth.Accepted)
	set.master.kill()
	set.replica.signal(t, syscall.SIGCONT)
	flows(t, a, r, 20*time.Second)
	flows(t, b, r, 5*time.Second)
	expect(t, a, again(lost), auth.TimestampOutOfWindow)
	expect(t, b, again(lost), auth.TimestampOutOfWindow)
	h.finish()
	if d, err := a.Put(ctx, newRecord(), store.PutOptions{}); err != nil || d.Replicated == nil || *d.Replicated {
		t.Errorf("without a replica: %v, %v; want replicated false", d.Replicated, err)
	}
}

func (p *process) id(t testing.TB) string {
	t.Helper()
	return fmt.Sprint(p.do(t, "cluster", "myid"))
}

func ownCluster(t testing.TB) []*process {
	t.Helper()
	all := launchCluster(t, 3)
	t.Cleanup(func() {
		for _, p := range all {
			if p.client != nil {
				p.kill()
			}
			_ = os.RemoveAll(p.dir)
		}
	})
	return all
}

// A cluster whose replica, which lacks the last nonces, takes over.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	nodes := ownCluster(t)
	replica := launchClusterNode(t)
	t.Cleanup(func() { replica.kill(); _ = os.RemoveAll(replica.dir) })
	replica.meet(t, nodes[0])
	eventually(t, 10*time.Second, "the replica knows its master", func() bool {
		return replica.client.Do(ctx, "cluster", "replicate", nodes[0].id(t)).Err() == nil
	})
	for _, p := range append([]*process{replica}, nodes...) {
		eventually(t, 20*time.Second, "all know each other", func() bool {
			list, err := p.client.ClusterNodes(ctx).Result()
			return err == nil && strings.Count(list, " connected") == 4 && strings.Count(list, "slave ") == 1
		})
	}
	eventually(t, 10*time.Second, "the replica follows", func() bool {
		info, _ := replica.client.Info(ctx, "replication").Result()
		return strings.Contains(info, "master_link_status:up")
	})
	a, b := pair(t, Options{ClusterAddrs: addrs(nodes[1:])})
	r := newRecord()
	for slot(r.ID) >= slots/3 { // on the first node
		r = newRecord()
	}
	putReplicated(t, a, r)
	h := startHammer(t, []*Store{a, b}, []*store.Record{r, newKey(t, b), newKey(t, b)})
	eventually(t, 5*time.Second, "load", func() bool { return h.accepted.Load() > 50 })
	replica.signal(t, syscall.SIGSTOP)
	lost := ahead(newClaim(r), 4)
	expect(t, a, lost, auth.Accepted)
	nodes[0].kill()
	replica.signal(t, syscall.SIGCONT)
	flows(t, a, r, 20*time.Second)
	flows(t, b, r, 5*time.Second)
	expect(t, a, again(lost), auth.TimestampOutOfWindow)
	expect(t, b, again(lost), auth.TimestampOutOfWindow)
	h.finish()
}

// While slots move between nodes, requests neither fail nor pass twice.
func TestSlotMigration(t *testing.T) {
	t.Parallel()
	nodes := ownCluster(t)
	opt := Options{ClusterAddrs: addrs(nodes), IOTimeout: time.Second, SettleTimeout: 3 * time.Second}
	a, b := pair(t, opt)
	var keys []*store.Record
	for range 3 {
		keys = append(keys, newKey(t, a))
	}
	h := startHammer(t, []*Store{a, b}, keys)
	eventually(t, 5*time.Second, "load", func() bool { return h.accepted.Load() > 50 })
	for round := range 6 {
		for _, r := range keys {
			number := slot(r.ID)
			owner := slotOwner(t, nodes, nodes[0], number)
			moveSlot(t, nodes, number, owner, (owner+1)%len(nodes))
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
func moveSlot(t testing.TB, nodes []*process, number, from, to int) {
	t.Helper()
	nodes[to].do(t, "cluster", "setslot", number, "importing", nodes[from].id(t))
	nodes[from].do(t, "cluster", "setslot", number, "migrating", nodes[to].id(t))
	for {
		keys, err := nodes[from].client.ClusterGetKeysInSlot(context.Background(), number, 1).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		nodes[from].do(t, "migrate", "127.0.0.1", nodes[to].port, keys[0], 0, 5000)
	}
	for _, i := range []int{to, from, 3 - to - from} {
		nodes[i].do(t, "cluster", "setslot", number, "node", nodes[to].id(t))
	}
	eventually(t, 30*time.Second, "the nodes agree on the slot", func() bool {
		epochs := map[string]bool{}
		for _, p := range nodes {
			if slotOwner(t, nodes, p, number) != to {
				return false
			}
			info, err := p.client.ClusterInfo(ctx).Result()
			_, epoch, _ := strings.Cut(info, "cluster_my_epoch:")
			epoch, _, _ = strings.Cut(epoch, "\r")
			if err != nil || epochs[epoch] {
				return false
			}
			epochs[epoch] = true
		}
		return true
	})
}

// slotOwner is the index of the node that owns the slot in the eyes of one.
func slotOwner(t testing.TB, nodes []*process, eyes *process, number int) int {
	t.Helper()
	ranges, err := eyes.client.ClusterSlots(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ranges {
		if r.Start <= number && number <= r.End {
			for i, p := range nodes {
				if r.Nodes[0].Addr == p.addr {
					return i
				}
			}
		}
	}
	return -1
}
