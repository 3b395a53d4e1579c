package redis

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/masters"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// wantMade checks that the store is in use: all copies exist.
func wantMade(t testing.TB, s *Store) {
	t.Helper()
	want := s.client.HGet(ctx, s.names.shared(), "epoch").Val()
	var copies atomic.Int64
	err := s.client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		names, err := node.Keys(ctx, s.opt.Prefix+"{*}:e").Result()
		for _, name := range names {
			if found := node.Get(ctx, name).Val(); want == "" || found != want {
				t.Errorf("the copy %s is %q, want %q", name, found, want)
			}
			copies.Add(1)
		}
		return err
	})
	if err != nil || copies.Load() != 64 {
		t.Errorf("%d copies of the epoch, want 64; %v", copies.Load(), err)
	}
}

// otherMaster returns the index of a master that does not have the slot of a name.
func otherMaster(name string) int { return (owner(redistest.Slot(name)) + 1) % 3 }

// While one master of a new cluster is out of reach nothing is put into use: no key
// is unknown, and none can be made. When it is back, everything works by itself.
func TestNewClusterWithoutOneMaster(t *testing.T) {
	t.Parallel()
	opt := Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(redistest.SharedCluster(t))}, Prefix: random() + ":"}
	var cut atomic.Bool
	cut.Store(true)
	away := opt.ClusterAddrs[otherMaster(names{opt.Prefix}.shared())]
	opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if cut.Load() && addr == away {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("it is cut off")}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	s := open(t, opt)
	r := newRecord()
	for range 2 {
		if err := check(s); !errors.Is(err, masters.ErrBeingMade) || !errors.Is(s.Ready(ctx), masters.ErrBeingMade) {
			t.Fatalf("%v, want that the store is being made", err)
		}
		calls := otherCalls(s, r)
		for _, call := range []string{"Get", "Put", "Meta", "PutMeta"} { // the other calls list or delete, and there is nothing
			if err := calls[call]; !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v, want ErrUnavailable", call, err)
			}
		}
		expectUnavailable(t, s, newClaim(r))
	}
	cut.Store(false)
	redistest.Eventually(t, 5*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
	wantMade(t, s)
	if _, err := s.Meta(ctx, "name"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Meta: %v, want ErrNotFound", err)
	}
	put(t, s, r)
	flows(t, s, r, 5*time.Second)
}
