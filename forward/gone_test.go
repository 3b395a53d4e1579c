package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestClientGone ends the request in each phase. The issuer sees that the
// connection is closed, and the error shows whether the request was sent.
func TestClientGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, said string }{
		{"before the answer", ""},
		{"in the head", "HTTP/1.1 200 OK\r\nX: "},
		{"in the body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab"},
		{"in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			closed := make(chan struct{})
			said := make(chan struct{})
			p := newPeer(t, func(pc *peerConn) {
				pc.request()
				pc.say(c.said)
				close(said)
				pc.hears()
				close(closed)
			})
			f, seen := start(t, nil, p.addr)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-said; cancel() }()
			got := fetchOf(ctx, f, &Request{Method: "GET", Target: "/"})
			if got.err == nil || got.err.Kind != KindCanceled || !got.err.Forwarded || got.err.Kind.Status() != 499 {
				t.Errorf("%v, want canceled after sending", got.err)
			}
			<-closed
			if kinds := seen.kinds(); len(kinds) != 0 {
				t.Errorf("the issuer is blamed for %v", kinds)
			}
		})
	}
}

// TestDeadline sends with a context whose deadline passes.
func TestDeadline(t *testing.T) {
	t.Parallel()
	p := newPeer(t, speaks(""))
	f, seen := start(t, nil, p.addr)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	got := fetchOf(ctx, f, &Request{Method: "GET", Target: "/"})
	if got.err == nil || got.err.Kind != KindTimeout || got.err.Kind.Status() != 504 || len(seen.kinds()) != 0 {
		t.Errorf("%v, %v; want a timeout that is no fault of the issuer", got.err, seen.kinds())
	}
}

// TestCloseEarly closes answers that were not read, or were read in part.
func TestCloseEarly(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 1<<20)
	p := newPeer(t, answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)))
	f, _ := start(t, nil, p.addr)
	for _, n := range []int64{0, 10, 1<<20 - 1} {
		a, err := f.Do(t.Context(), &Request{Method: "GET", Target: "/"})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.CopyN(io.Discard, a, n)
		for range 2 {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
		var closed *Error
		if _, err := a.Read(make([]byte, 1)); !errors.As(err, &closed) {
			t.Errorf("Read after Close returns %v", err)
		}
	}
	if n := p.conns.Load(); n != 3 {
		t.Errorf("%d connections for three answers that were not read to the end, want 3", n)
	}
}

// TestClientTakesNoMore makes the writes to the client fail.
func TestClientTakesNoMore(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		okAnswer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\nok",
	} {
		p := newPeer(t, answers(answer))
		f, seen := start(t, nil, p.addr)
		a, err := f.Do(t.Context(), &Request{Method: "GET", Target: "/"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.CopyTo(&failingWriter{}, nil)
		var typed *Error
		if !errors.As(err, &typed) || typed.Kind != KindCanceled || len(seen.kinds()) != 0 {
			t.Errorf("%q: %v, %v; want canceled", answer, err, seen.kinds())
		}
	}
}

type failingWriter struct{}

func (*failingWriter) Write([]byte) (int, error) { return 0, errors.New("gone " + canary) }

// TestGoneAtTheEnd ends the context when the answer is complete. The connection
// is being closed then, so no other request gets it.
func TestGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	p := newPeer(t, answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"))
	f, _ := start(t, nil, p.addr)
	a, err := f.Do(t.Context(), &Request{Method: "GET", Target: "/"})
	if err != nil {
		t.Fatal(err)
	}
	stop := a.stop
	a.stop = func() bool { stop(); return false } // as it is when the context ends just before
	if _, err := a.CopyTo(io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	wantOK(t, get(f))
	if n := p.conns.Load(); n != 2 {
		t.Errorf("%d connections were made, want 2", n)
	}
}
