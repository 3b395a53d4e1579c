package redis

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// If the network forgets all connections while the server works, a large pool
// loses no more requests than a small one.
func TestForgottenConnections(t *testing.T) {
	for _, size := range []int{44, 112} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := redistest.NewProxy(t, redistest.SharedSingle(t))
			s := open(t, Options{Options: rpc.Options{URL: p.URL(), PoolSize: size, IOTimeout: 500 * time.Millisecond}, Prefix: random() + ":", SettleTimeout: time.Second})
			r := newKey(t, s)
			fillPool(t, s, size)
			p.Forget()
			for lost := 0; ; lost++ {
				if v, err := s.Settle(ctx, newClaim(r)); err == nil && v.Reason == auth.Accepted {
					break
				}
			}
			// One of a request, and those of the checks that ran meanwhile.
			if n := p.LostCommands(); n > 6 {
				t.Errorf("%d commands were sent into the void", n)
			}
		})
	}
}

// fillPool makes the pool hold size idle connections.
func fillPool(t *testing.T, s *Store, size int) {
	t.Helper()
	client := s.client.UniversalClient.(*redis.Client)
	var tasks, all sync.WaitGroup
	all.Add(size)
	for range size {
		tasks.Go(func() {
			c := client.Conn()
			defer c.Close()
			func() {
				defer all.Done() // also where the test fails
				redistest.Eventually(t, time.Minute, "a connection", func() bool { return c.Ping(ctx).Err() == nil })
			}()
			all.Wait()
		})
	}
	tasks.Wait()
	if idle := client.PoolStats().IdleConns; int(idle) < size-4 { // a check may have one
		t.Fatalf("%d idle connections, want %d", idle, size)
	}
}
