package caddymodule

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSendOnce sends requests on a kept connection to an upstream that reads them and
// closes the connection. No request may arrive a second time, on a new connection as
// little as on another kept one.
func TestSendOnce(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		for _, kept := range []int{1, 4} {
			for range 10 {
				n, err := sendToHangUp(t, method, kept, sendOnce)
				if !errors.Is(err, errSentOnce) || n != 1 {
					t.Fatalf("%s with %d kept connections: the upstream saw it %d times, want 1: %v", method, kept, n, err)
				}
			}
		}
		unprotected := func(r *http.Request) (*http.Request, context.CancelFunc) { return r, func() {} }
		if n, err := sendToHangUp(t, method, 1, unprotected); n < 2 {
			t.Errorf("%s: without protection the upstream saw it %d times (%v); the test proves nothing", method, n, err)
		}
	}
}

// sendToHangUp opens as many connections as are to be kept and sends one more request.
// It returns how often the upstream saw that one, and why it was not answered.
func sendToHangUp(t *testing.T, method string, kept int, protect func(*http.Request) (*http.Request, context.CancelFunc)) (int64, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var opened sync.WaitGroup
	var seen atomic.Int64
	opened.Add(kept)
	go func() {
		for open := 0; ; open++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go hangUpOnSecond(conn, open < kept, &opened, &seen)
		}
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: kept}
	defer transport.CloseIdleConnections()
	send := func(protect func(*http.Request) (*http.Request, context.CancelFunc)) error {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+"/", nil)
		if err != nil {
			return err
		}
		r, done := protect(r)
		defer done()
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return errors.Join(err, context.Cause(r.Context()))
		}
		return answer.Body.Close()
	}
	var sent sync.WaitGroup
	for range kept {
		sent.Go(func() {
			if err := send(sendOnce); err != nil {
				t.Error(err)
			}
		})
	}
	sent.Wait()
	err = send(protect)
	return seen.Load(), err
}

// hangUpOnSecond answers the first request of a connection to be kept once all of them
// are open, counts any other, and closes the connection after it.
func hangUpOnSecond(conn net.Conn, kept bool, opened *sync.WaitGroup, seen *atomic.Int64) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	if kept {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		opened.Done()
		opened.Wait()
		if _, err := conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")); err != nil {
			return
		}
	}
	if _, err := http.ReadRequest(in); err == nil {
		seen.Add(1)
	}
}

// TestSecondConnectionIsClosed: whatever connection net/http takes for a request that
// was sent already, nothing can be written on it, be its context heeded or not.
func TestSecondConnectionIsClosed(t *testing.T) {
	once, done := sendOnce(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	defer done()
	trace := httptrace.ContextClientTrace(once.Context())
	first, second := new(closing), new(closing)
	trace.GotConn(httptrace.GotConnInfo{Conn: first})
	trace.WroteHeaders()
	trace.GotConn(httptrace.GotConnInfo{Conn: second})
	if first.closed || !second.closed {
		t.Errorf("closed: the first connection %v, the second %v", first.closed, second.closed)
	}
}

type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}
