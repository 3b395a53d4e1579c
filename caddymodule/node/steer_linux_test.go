package node

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/caddymodule/peek"
)

// caddyListener listens as a server of Caddy does, below TLS.
func caddyListener(t *testing.T, address string) net.Listener {
	t.Helper()
	parsed, err := caddy.ParseNetworkAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	made, err := parsed.Listen(t.Context(), 0, net.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	l := tls.NewListener(made.(net.Listener), new(tls.Config))
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// choose applies a choice to the socket of a listener.
func choose(t *testing.T, l net.Listener, choice func(fd int) error) {
	t.Helper()
	raw := peek.Socket(l)
	if raw == nil {
		t.Fatal("no socket is found below the listeners of Caddy and crypto/tls")
	}
	var err error
	if failed := raw.Control(func(fd uintptr) { err = choice(int(fd)) }); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
}

// The kernel gives new connections to the newest of two sockets, and to the only
// one when the other is closed.
func TestPreferNewest(t *testing.T) {
	listenPlainTCP()
	before := caddyListener(t, "127.0.0.1:0")
	address := before.Addr().String()
	old := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := before.Accept()
			if err != nil {
				return
			}
			old <- c
		}
	}()
	after := caddyListener(t, address)
	choose(t, after, preferNewest)
	connect := func() {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		taken, err := after.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Close(), taken.Close()
	}
	for range 50 {
		connect()
	}
	_ = before.Close()
	connect()
	choose(t, after, leaveToKernel)
	connect()
	if n := len(old); n != 0 {
		t.Errorf("the old socket got %d connections", n)
	}
}
