package redis

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A forgetful is a network between gateways and Redis.
type forgetful struct {
	path, server string
	open, lost   atomic.Int64 // connections; commands on forgotten ones
	delay        atomic.Int64 // of each answer, in nanoseconds
	mu           sync.Mutex
	forgotten    chan struct{} // closed: the existing connections are forgotten
}

func startForgetful(t *testing.T, r *harness.RedisServer) *forgetful {
	t.Helper()
	n := &forgetful{path: filepath.Join(r.Dir, "n"), server: r.Addr, forgotten: make(chan struct{})}
	listener, err := net.Listen("unix", n.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go n.carry(client)
		}
	}()
	return n
}

// forget loses everything that is sent on the existing connections. New ones
// work.
func (n *forgetful) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.forgotten)
	n.forgotten = make(chan struct{})
}

func (n *forgetful) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", n.server)
	if err != nil {
		return
	}
	defer server.Close()
	n.mu.Lock()
	forgotten := n.forgotten
	n.mu.Unlock()
	n.open.Add(1)
	defer n.open.Add(-1)
	go n.copy(client, server, nil)
	n.copy(server, client, forgotten)
}

// copy carries bytes until one side closes. When the channel forgotten is
// closed, it drops them. For answers the channel is nil, and each one waits for
// the delay.
func (n *forgetful) copy(to io.Writer, from io.Reader, forgotten <-chan struct{}) {
	buf := make([]byte, 16<<10)
	for {
		size, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-forgotten:
			n.lost.Add(1)
			continue
		default:
		}
		if forgotten == nil {
			time.Sleep(time.Duration(n.delay.Load()))
		}
		if _, err := to.Write(buf[:size]); err != nil {
			return
		}
	}
}

// TestNetworkForgetsConnections makes a network forget all idle connections
// while Redis works. The number of lost commands does not depend on the number
// of connections. The time without an accepted request depends on the machine,
// so it is only logged.
func TestNetworkForgetsConnections(t *testing.T) {
	t.Parallel()
	for _, size := range []int{44, 112} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			r := harness.StartRedis(t)
			n := startForgetful(t, r)
			g := harness.StartGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr,
				Store: fmt.Sprintf("redis unix://%s {\npool_size %d\n}", n.path, size)})
			key := g.NewKey(nil)
			n.delay.Store(int64(20 * time.Millisecond))
			harness.Eventually(t, "the pool is full", func() bool {
				requests := make([]*harness.Request, 2*size)
				for i := range requests {
					requests[i] = key.Get()
				}
				g.AtOnce(t, requests)
				return n.open.Load() >= int64(size)
			})
			n.delay.Store(0)
			l := startLoad(t, key, g)
			l.flows()
			idle, lost := n.open.Load(), n.lost.Load()
			began := time.Now()
			n.forget()
			l.enough(began, http.StatusOK)
			sent := l.finish()
			t.Logf("with %d connections: %d commands lost, %d of %d requests refused, %s without a 200", idle,
				n.lost.Load()-lost, l.statuses(sent)[http.StatusServiceUnavailable], len(sent), longestGap(sent, began))
			// One of each client, and those of the checks meanwhile.
			if got := n.lost.Load() - lost; got > 9 {
				t.Errorf("%d commands were sent into the void", got)
			}
		})
	}
}

// longestGap returns the longest time in which no accepted request began, from
// the moment on.
func longestGap(sent []exchanged, from time.Time) (longest time.Duration) {
	slices.SortFunc(sent, func(a, b exchanged) int { return a.at.Compare(b.at) })
	for _, e := range sent {
		if e.answer.Status != http.StatusOK || e.at.Before(from) {
			continue
		}
		longest = max(longest, e.at.Sub(from))
		from = e.at
	}
	return longest
}
