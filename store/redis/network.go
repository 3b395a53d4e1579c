package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A network makes the connections of a client, as a hook of go-redis. It changes
// the pool of go-redis in three ways:
//
//   - When a connection fails, idle ones that have received nothing since its last
//     command was sent are not used again, because a network that has forgotten
//     one has forgotten most. So the time of recovery does not grow with the pool.
//     Nor is any that was made before the server was found to be a replica.
//   - A reply that has arrived counts, even if this process got no CPU before
//     the deadline had passed.
//   - A failed dial is an error of that call alone. After some of them the pool
//     would stop dialing, for up to a second at a time.
type network struct {
	timeout time.Duration // of one read or write
	begun   time.Time     // moments are durations since then
	all     sync.Map      // of address to *peer
}

// A peer is what the connections of one pool share.
type peer struct {
	*network
	suspect atomic.Int64 // moment; connections that have received nothing since are suspect
}

func newNetwork(timeout time.Duration) *network {
	return &network{timeout: timeout, begun: time.Now()}
}

// deadlineSlack is added to the timeouts of go-redis, because it measures them by
// a clock that may be late. The connections set the exact deadlines.
const deadlineSlack = time.Second

func (n *network) now() int64 { return int64(time.Since(n.begun)) }

// DialHook implements [redis.Hook].
func (n *network) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		found, ok := n.all.Load(addr)
		if !ok {
			found, _ = n.all.LoadOrStore(addr, &peer{network: n})
		}
		c := &conn{peer: found.(*peer)}
		var err error
		if c.Conn, err = next(ctx, network, addr); err != nil {
			c.undialed = fmt.Errorf("dialing: %w", err) // go-redis unwraps it once
			c.Conn, _ = net.Pipe()                      // for its other methods
		}
		c.heard.Store(n.now())
		return c, nil
	}
}

// ProcessHook implements [redis.Hook].
func (*network) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (*network) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A conn is a connection that notes when it last received data.
type conn struct {
	net.Conn
	peer        *peer
	undialed    error        // why the dial failed; every use returns it
	sent, heard atomic.Int64 // moments
}

func (c *conn) Write(b []byte) (int, error) {
	if c.undialed != nil {
		return 0, c.undialed
	}
	c.sent.Store(c.peer.now())
	n, err := c.Conn.Write(b)
	if err != nil {
		c.failed(err)
	}
	return n, err
}

func (c *conn) Read(b []byte) (int, error) {
	if c.undialed != nil {
		return 0, c.undialed
	}
	n, err := c.Conn.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		// The deadline has passed, but perhaps this goroutine could not run before.
		_ = c.Conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		n, err = c.Conn.Read(b)
	}
	if n > 0 {
		c.heard.Store(c.peer.now())
	}
	if err != nil {
		c.failed(err)
	}
	return n, err
}

// failed makes those connections suspect that have received nothing since this one
// was written to. It does nothing if the call had no time left to wait.
func (c *conn) failed(err error) {
	sent := c.sent.Load()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) && time.Duration(c.peer.now()-sent) < c.peer.timeout/2 {
		return
	}
	for {
		known := c.peer.suspect.Load()
		if sent <= known || c.peer.suspect.CompareAndSwap(known, sent) {
			return
		}
	}
}

// distrust makes all connections suspect that were made until now.
func (n *network) distrust() {
	n.all.Range(func(_, p any) bool {
		p.(*peer).suspect.Store(n.now())
		return true
	})
}

var errSuspect = errors.New("the connection is suspect")

// SyscallConn is called by go-redis to find out whether the server has closed an
// idle connection. A suspect connection returns an error, so go-redis closes it.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	switch {
	case c.undialed != nil:
		return nil, c.undialed
	case c.heard.Load() <= c.peer.suspect.Load():
		return nil, errSuspect
	}
	return c.Conn.(syscall.Conn).SyscallConn()
}

func (c *conn) SetReadDeadline(t time.Time) error {
	if c.undialed != nil {
		return c.undialed
	}
	return c.Conn.SetReadDeadline(c.bounded(t))
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	if c.undialed != nil {
		return c.undialed
	}
	return c.Conn.SetWriteDeadline(c.bounded(t))
}

// bounded returns the deadline, or the end of the timeout if that is earlier.
func (c *conn) bounded(t time.Time) time.Time {
	if end := time.Now().Add(c.peer.timeout); end.Before(t) {
		return end
	}
	return t
}
