package rpc

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/redistest"
)

// However many dials have failed, the next one is tried.
func TestDialsAreAlwaysTried(t *testing.T) {
	server := redistest.SharedSingle(t)
	var cut atomic.Bool
	opt := Options{URL: server.URL(), PoolSize: 2, IOTimeout: 5 * time.Second}
	opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if cut.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	client := newClient(t, opt)
	cut.Store(true)
	for range 10 {
		var dial *net.OpError
		if err := client.Ping(ctx).Err(); !errors.As(err, &dial) || dial.Op != "dial" {
			t.Fatalf("got %v, want the error of the dial", err)
		}
	}
	cut.Store(false)
	if err := client.Ping(ctx).Err(); err != nil {
		t.Errorf("the server is back, and the pool does not dial: %v", err)
	}
}

// wired returns a connection of the network to the listener, and its other end.
func wired(t *testing.T, n *network, l net.Listener) (client, server net.Conn) {
	t.Helper()
	dial := n.DialHook(func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	})
	client, err := dial(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// When a connection fails, every connection that has received nothing since its
// last command was sent is suspect.
func TestSuspectConnections(t *testing.T) {
	n, l := newNetwork(time.Minute), listen(t)
	failing, failed := wired(t, n, l)
	idle, _ := wired(t, n, l)
	busy, answers := wired(t, n, l)
	elsewhere, _ := wired(t, n, listen(t))

	var b [16]byte
	usable := func(c net.Conn) bool {
		raw, err := c.(*conn).SyscallConn()
		return err == nil && raw.Read(func(uintptr) bool { return true }) == nil
	}
	_, _ = failing.Write([]byte("PING\r\n"))
	_ = failing.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := failing.Read(b[:]); err == nil || !usable(idle) {
		t.Errorf("%v: a call that came too late to wait says nothing of the network", err)
	}
	_, _ = answers.Write([]byte("+OK\r\n"))
	if _, err := busy.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	failed.Close()
	_ = failing.SetReadDeadline(time.Time{})
	if _, err := failing.Read(b[:]); err == nil {
		t.Fatal("it does not fail")
	}
	fresh, _ := wired(t, n, l)
	for name, c := range map[string]net.Conn{"heard since": busy, "new": fresh, "of another server": elsewhere} {
		if !usable(c) {
			t.Errorf("a connection %s is suspect", name)
		}
	}
	if usable(idle) || usable(failing) {
		t.Error("a connection that was not heard since is not suspect")
	}
}

// A reply that arrived in time is used, even if it is read after the deadline.
func TestLateReaderGetsReply(t *testing.T) {
	client, server := wired(t, newNetwork(time.Minute), listen(t))
	if _, err := server.Write([]byte("+OK\r\n")); err != nil {
		t.Fatal(err)
	}
	var b [16]byte
	if _, err := client.Read(b[:1]); err != nil { // it has arrived
		t.Fatal(err)
	}
	if err := client.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(b[1:]); err != nil || string(b[:n+1]) != "+OK\r\n" {
		t.Errorf("%q, %v; want the reply", b[:n+1], err)
	}
	var network net.Error
	if _, err := client.Read(b[:]); !errors.As(err, &network) || !network.Timeout() {
		t.Errorf("%v, want a timeout", err)
	}
}
