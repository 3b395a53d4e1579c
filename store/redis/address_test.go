package redis

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
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
