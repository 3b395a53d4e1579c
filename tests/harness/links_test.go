package harness

import (
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// Connections that were opened and closed again pile up on a busy machine. Bytes
// of other connections must not wait until it is known who opened those.
func TestLinksCarryWhileOpenersAreSought(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	l := NewLinks(t)
	addr := l.Listen("server", server.Addr().String())
	first := dial(t, addr)
	echoes(t, first)

	sought, found := make(chan struct{}, 1), make(chan struct{})
	l.Name("slow", func() int {
		select {
		case sought <- struct{}{}:
		default:
		}
		<-found
		return os.Getpid()
	})
	second := dial(t, addr)
	<-sought
	echoes(t, first)
	close(found)
	echoes(t, second)
}

// A connection that its opener has closed needs no reading of the processes.
func TestClosedConnectionsAreNotSought(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l := NewLinks(t)
	l.Name("other", func() int {
		t.Error("the processes were read")
		return 0
	})
	client := dial(t, server.Addr().String())
	accepted, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	_ = client.Close()
	if name, open := l.opener(accepted); open {
		t.Errorf("the connection is said to be open, by %q", name)
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// echoes checks that bytes come back.
func echoes(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}
