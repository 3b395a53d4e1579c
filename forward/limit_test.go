package forward

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// TestMaxConnections uses all connections that are allowed. The next request
// waits for one, and fails when its time is over. No more connections are ever
// open.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	p := newPeer(t, func(c *peerConn) {
		for c.request() != nil {
			c.waits(release)
			c.say(okAnswer)
		}
	})
	f, seen := start(t, func(o *Options) { o.MaxConnections, o.DialTimeout = 2, 50*time.Millisecond }, p.addr)
	results := make(chan result)
	for range 2 {
		go func() { results <- get(f) }()
	}
	eventually(t, "both requests arrived", func() bool { return p.requests.Load() == 2 })
	busy := get(f)
	if busy.err == nil || busy.err.Kind != KindBusy || busy.err.Forwarded || busy.err.RetryAfter <= 0 {
		t.Errorf("with all connections in use: %v, want busy, and when to try again", busy.err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if gone := fetchOf(ctx, f, &Request{Method: "GET", Target: "/"}); gone.err == nil || gone.err.Kind != KindCanceled || gone.err.Forwarded {
		t.Errorf("with the client gone: %v, want canceled", gone.err)
	}
	close(release)
	for range 2 {
		wantOK(t, <-results)
	}
	f.options.DialTimeout = 30 * time.Second
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { wantOK(t, get(f)) })
	}
	all.Wait()
	if n := p.conns.Load(); n > 2 {
		t.Errorf("%d connections were made, want at most 2", n)
	}
	if n := seen.conns.Load(); n > 2 {
		t.Errorf("%d connections are open, want at most 2", n)
	}
}

// readConn is a connection that is not a socket. The test decides what a read
// returns.
type readConn struct {
	net.Conn
	n        int
	err      error
	deadline time.Time
}

func (c *readConn) Read([]byte) (int, error)           { return c.n, c.err }
func (c *readConn) SetDeadline(at time.Time) error     { c.deadline = at; return nil }
func (c *readConn) SetReadDeadline(at time.Time) error { c.deadline = at; return nil }

// TestCheckWithDeadline checks an idle connection as on a system that cannot
// read without waiting.
func TestCheckWithDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		conn *readConn
		want idleState
	}{
		{&readConn{err: os.ErrDeadlineExceeded}, idleReady},
		{&readConn{n: 1}, idleUnasked},
		{&readConn{err: io.EOF}, idleClosed},
		{&readConn{err: net.ErrClosed}, idleClosed},
	} {
		checked := newConn(&issuer{}, c.conn)
		if checked.now != nil {
			t.Fatal("the connection is taken for a socket")
		}
		request := time.Now().Add(time.Hour)
		if got := checked.state(request); got != c.want || !c.conn.deadline.Equal(request) {
			t.Errorf("%+v: state %v and deadline %v, want %v and that of the request", c.conn, got, c.conn.deadline, c.want)
		}
	}
}
