package caddymodule

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// TestSendOnce sends a GET on a kept connection to an upstream that reads it and
// closes the connection: the GET must not arrive a second time.
func TestSendOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var seen atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go hangUpOnSecond(conn, &seen)
		}
	}()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	get := func(protect bool) (*http.Request, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if protect {
			var done context.CancelFunc
			r, done = sendOnce(r)
			defer done()
		}
		answer, err := transport.RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		return r, err
	}
	if _, err := get(true); err != nil {
		t.Fatal(err)
	}
	r, err := get(true)
	if err == nil || !errors.Is(context.Cause(r.Context()), errSentOnce) {
		t.Errorf("the second request: %v, cause %v", err, context.Cause(r.Context()))
	}
	if n := seen.Load(); n != 2 {
		t.Errorf("the upstream saw %d requests, want 2", n)
	}
	seen.Store(0)
	_, _ = get(false)
	_, _ = get(false)
	if n := seen.Load(); n < 3 {
		t.Errorf("without protection the upstream saw %d requests; the test proves nothing", n)
	}
}

func hangUpOnSecond(conn net.Conn, seen *atomic.Int64) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for answered := false; ; answered = true {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		seen.Add(1)
		if answered {
			return
		}
		if _, err := conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")); err != nil {
			return
		}
	}
}
