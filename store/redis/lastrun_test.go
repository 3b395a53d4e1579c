package redis

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// A route leads a gateway to one of two servers. So a test can cut a network
// without the rights of root.
type route struct {
	to atomic.Pointer[redistest.Process]
}

func (r *route) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", r.to.Load().Addr)
}

// An address leads to the new master, while the connections to the old one live on,
// as with DNS, or with a proxy that cuts nothing. The first look at the old one ends
// them all, however many they are.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	master, replica := redistest.MasterAndReplica(t)
	var way route
	way.to.Store(master)
	s, err := New(patient(Options{Options: rpc.Options{URL: master.URL(), Dialer: way.dial, PoolSize: 16}}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := check(s); err != nil { // nobody else looks
		t.Fatal(err)
	}
	r := newRecord()
	putReplicated(t, s, r)
	redistest.Eventually(t, 20*time.Second, "several connections are open", func() bool {
		var together sync.WaitGroup
		for range 100 {
			together.Go(func() { _, _ = s.Settle(ctx, newClaim(r)) })
		}
		together.Wait()
		return s.client.PoolStats().IdleConns >= 3
	})
	replica.Do(t, "replicaof", "no", "one")
	master.Do(t, "replicaof", "127.0.0.1", fmt.Sprint(replica.Port))
	way.to.Store(replica)
	const demoted = "it is a replica"
	if err := check(s); err == nil || !strings.Contains(err.Error(), demoted) {
		t.Fatalf("the first look: %v", err)
	}
	if err := check(s); err != nil && strings.Contains(err.Error(), demoted) {
		t.Fatalf("the second look goes to the old master: %v", err)
	}
	redistest.Eventually(t, 20*time.Second, "the new master is used", func() bool {
		_ = check(s)
		v, err := s.Settle(ctx, ahead(newClaim(r), 20))
		return err == nil && v.Reason == auth.Accepted
	})
}

// A gateway is cut off with the old master, is killed, and starts again when
// the network is whole. It accepts no request again that it accepted there.
func TestKilledAfterCut(t *testing.T) {
	t.Parallel()
	master, replica := redistest.MasterAndReplica(t)
	var here, there route
	here.to.Store(master)
	there.to.Store(master)
	opt := Options{Options: rpc.Options{URL: master.URL(), IOTimeout: time.Second}, RuntimeDir: t.TempDir(), SettleTimeout: 2 * time.Second}
	opt.Dialer = here.dial
	cut := open(t, opt)
	other := opt
	other.Dialer, other.RuntimeDir = there.dial, t.TempDir()
	b := open(t, other)
	r := newRecord()
	putReplicated(t, cut, r)
	expect(t, b, newClaim(r), auth.Accepted)

	there.to.Store(replica)
	replica.Do(t, "replicaof", "no", "one")
	master.Do(t, "client", "kill", "type", "normal", "skipme", "yes")
	flows(t, b, r, 20*time.Second)
	floor := b.servers.View().Highest()
	if floor == 0 {
		t.Fatal("the other gateway did not raise the floor")
	}
	var lost *store.Claim
	redistest.Eventually(t, 20*time.Second, "the old master accepts what is over the floor", func() bool {
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
	master.Do(t, "replicaof", "127.0.0.1", fmt.Sprint(replica.Port))
	redistest.Eventually(t, 20*time.Second, "the old master follows", func() bool { return master.Follows(t) })
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
	redistest.Eventually(t, 20*time.Second, "the other gateway knows it too", func() bool {
		return b.servers.View().Highest() == s.servers.View().Highest()
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
	last, note := int64(0), s.accepted
	s.accepted = func(id string, now int64) {
		last = now
		note(id, now)
	}
	for range 50 {
		expect(t, s, newClaim(r), auth.Accepted)
		if kept := markIn(t, dir); kept < last || kept > last+250_000 {
			t.Fatalf("accepted at %d, the file has %d", last, kept)
		}
	}
	again := open(t, opt)
	expect(t, again, newClaim(r), auth.Accepted)
	if floor := again.servers.View().Highest(); floor != s.servers.View().Highest() {
		t.Errorf("the floor rose to %v", rpc.Moment(floor))
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

// markIn returns the moment in the file of the runtime directory, in microseconds.
func markIn(t *testing.T, dir string) int64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v; want one file", files, err)
	}
	text, err := os.ReadFile(files[0])
	var mark struct{ Accepted int64 }
	if err = errors.Join(err, json.Unmarshal(text, &mark)); err != nil {
		t.Fatal(err)
	}
	return mark.Accepted
}

// A missing runtime directory is made. One that cannot be made is reported, and requests
// go on.
func TestMarkCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, fits := range map[string]bool{filepath.Join(t.TempDir(), "gone"): true, filepath.Join(file, "dir"): false} {
		opt := single(t)
		opt.RuntimeDir = dir
		s := open(t, opt)
		expect(t, s, newClaim(newKey(t, s)), auth.Accepted)
		if warnings := fmt.Sprint(s.Status(ctx).Details.Warnings); strings.Contains(warnings, "is not known after its end") == fits {
			t.Errorf("%s: warnings %s", dir, warnings)
		}
	}
}
