package redis

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// A route leads a gateway to one of two servers. So a test can cut a network
// without the rights of root.
type route struct{ to atomic.Pointer[process] }

func (r *route) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", r.to.Load().addr)
}

// masterAndReplica starts two servers of which one follows the other.
func masterAndReplica(t testing.TB, config ...string) (master, replica *process) {
	t.Helper()
	config = append([]string{"--repl-diskless-sync-delay", "0"}, config...)
	master = own(t, true, config...)
	replica = own(t, true, append(config, "--replicaof", fmt.Sprintf("127.0.0.1 %d", master.port))...)
	eventually(t, 20*time.Second, "the replica follows", func() bool { return replica.follows(t) })
	// A master with min-replicas-to-write counts its good replicas once a second.
	eventually(t, 20*time.Second, "the master takes writes", func() bool { return master.client.Del(ctx, "nothing").Err() == nil })
	return master, replica
}

// An address leads to the new master, while the connections to the old one live on,
// as with DNS, or with a proxy that cuts nothing. The first look at the old one ends
// them all, however many they are.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	master, replica := masterAndReplica(t)
	var way route
	way.to.Store(master)
	s, err := New(patient(Options{URL: master.url(), dialer: way.dial, PoolSize: 16}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.servers.check(ctx, mayBegin); err != nil { // nobody else looks
		t.Fatal(err)
	}
	r := newRecord()
	putReplicated(t, s, r)
	eventually(t, 20*time.Second, "several connections are open", func() bool {
		var together sync.WaitGroup
		for range 100 {
			together.Go(func() { _, _ = s.Settle(ctx, newClaim(r)) })
		}
		together.Wait()
		return s.client.PoolStats().IdleConns >= 3
	})
	replica.do(t, "replicaof", "no", "one")
	master.do(t, "replicaof", "127.0.0.1", fmt.Sprint(replica.port))
	way.to.Store(replica)
	const demoted = "it is a replica"
	if err := s.servers.check(ctx, mayBegin); err == nil || !strings.Contains(err.Error(), demoted) {
		t.Fatalf("the first look: %v", err)
	}
	if err := s.servers.check(ctx, mayBegin); err != nil && strings.Contains(err.Error(), demoted) {
		t.Fatalf("the second look goes to the old master: %v", err)
	}
	eventually(t, 20*time.Second, "the new master is used", func() bool {
		_ = s.servers.check(ctx, mayBegin)
		v, err := s.Settle(ctx, ahead(newClaim(r), 20))
		return err == nil && v.Reason == auth.Accepted
	})
}

// A gateway is cut off with the old master, is killed, and starts again when
// the network is whole. It accepts no request again that it accepted there.
func TestKilledAfterCut(t *testing.T) {
	t.Parallel()
	master, replica := masterAndReplica(t)
	var here, there route
	here.to.Store(master)
	there.to.Store(master)
	opt := Options{URL: master.url(), RuntimeDir: t.TempDir(), IOTimeout: time.Second, SettleTimeout: 2 * time.Second}
	opt.dialer = here.dial
	cut := open(t, opt)
	other := opt
	other.dialer, other.RuntimeDir = there.dial, t.TempDir()
	b := open(t, other)
	r := newRecord()
	putReplicated(t, cut, r)
	expect(t, b, newClaim(r), auth.Accepted)

	there.to.Store(replica)
	replica.do(t, "replicaof", "no", "one")
	master.do(t, "client", "kill", "type", "normal", "skipme", "yes")
	flows(t, b, r, 20*time.Second)
	floor := b.servers.view.Load().highest()
	if floor == 0 {
		t.Fatal("the other gateway did not raise the floor")
	}
	var lost *store.Claim
	eventually(t, 20*time.Second, "the old master accepts what is over the floor", func() bool {
		lost = newClaim(r)
		lost.ReplayFloorAhead = 0
		if lost.Timestamp*1e6 <= floor {
			return false
		}
		v, err := cut.Settle(ctx, lost)
		return err == nil && !v.Stale && v.Reason == auth.Accepted
	})

	// The gateway was killed, so its memory is lost. The network is whole
	// again.
	master.do(t, "replicaof", "127.0.0.1", fmt.Sprint(replica.port))
	eventually(t, 20*time.Second, "the old master follows", func() bool { return master.follows(t) })
	here.to.Store(replica)
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	flows(t, s, r, 20*time.Second)
	expectNotAgain(t, s, lost)
	eventually(t, 20*time.Second, "the other gateway knows it too", func() bool {
		return b.servers.view.Load().highest() == s.servers.view.Load().highest()
	})
	expectNotAgain(t, b, lost)
}

// The file covers every acceptance before the answer, and is seldom written. A
// gateway that starts again on the same servers raises no floor.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	opt := single(t)
	opt.RuntimeDir = dir
	s := open(t, opt)
	r := newKey(t, s)
	for range 50 {
		expect(t, s, newClaim(r), auth.Accepted)
		if last, kept := s.servers.accepts.latest(allSlots()), newLastRun(&s.opt).read().Accepted; kept < last || kept > last+noteAhead.Microseconds() {
			t.Fatalf("accepted at %d, the file has %d", last, kept)
		}
	}
	again := open(t, opt)
	expect(t, again, newClaim(r), auth.Accepted)
	if floor := again.servers.view.Load().highest(); floor != s.servers.view.Load().highest() {
		t.Errorf("the floor rose to %v", moment(floor))
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v; want one file", files, err)
	}
	for _, damaged := range []string{"damaged", `{"accepted": 9000000000000000000, "servers": {"another": "0-16383"}}`} {
		if err := os.WriteFile(filepath.Join(dir, files[0].Name()), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		expect(t, open(t, opt), newClaim(r), auth.Accepted)
	}
}

// A missing runtime directory is reported, and requests go on.
func TestMarkCannotBeWritten(t *testing.T) {
	opt := single(t)
	opt.RuntimeDir = filepath.Join(t.TempDir(), "gone")
	s := open(t, opt)
	expect(t, s, newClaim(newKey(t, s)), auth.Accepted)
	if warnings := fmt.Sprint(s.Status(ctx).Details.Warnings); !strings.Contains(warnings, "is not known after its end") {
		t.Errorf("warnings %s, want one on the runtime directory", warnings)
	}
}
