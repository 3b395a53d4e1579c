package forward

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// unasked is an answer without a request.
const unasked = "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + canary

// idleFaults are things that an issuer can do to an idle connection.
var idleFaults = []struct {
	name string
	idle func(c *peerConn)
	told []Kind
}{
	{"closed", func(c *peerConn) { _ = c.Close() }, nil},
	{"reset", func(c *peerConn) { _ = c.Conn.(*net.TCPConn).SetLinger(0); _ = c.Close() }, nil},
	{"half closed", func(c *peerConn) { _ = c.Conn.(*net.TCPConn).CloseWrite() }, nil},
	{"an unasked answer", func(c *peerConn) { c.say(unasked) }, []Kind{KindUnasked}},
	{"an unasked answer, then closed", func(c *peerConn) { c.say(unasked); _ = c.Close() }, []Kind{KindUnasked}},
	{"one byte", func(c *peerConn) { c.say("\n") }, []Kind{KindUnasked}},
	{"408", func(c *peerConn) { c.say("HTTP/1.1 408 Timeout\r\nConnection: close\r\n\r\n"); _ = c.Close() }, []Kind{KindUnasked}},
}

// TestIdleConnection makes the issuer close or write to an idle connection. The
// next request must use another one, and arrive unchanged and once.
func TestIdleConnection(t *testing.T) {
	t.Parallel()
	for _, c := range idleFaults {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now := make(chan struct{})
			p := newPeer(t, func(pc *peerConn) {
				if pc.n > 1 {
					answers(okAnswer)(pc)
					return
				}
				pc.request()
				pc.say(okAnswer)
				pc.waits(now)
				c.idle(pc)
				pc.hears()
			})
			f, seen := start(t, nil, p.addr)
			wantOK(t, get(f))
			close(now)
			waitReadable(t, f.issuers[0])
			wantOK(t, post(f, "body"))
			if n := p.requests.Load(); n != 2 {
				t.Errorf("%d requests arrived, want 2", n)
			}
			if n := p.conns.Load(); n != 2 {
				t.Errorf("%d connections were made, want 2", n)
			}
			if kinds := seen.kinds(); !slices.Equal(kinds, c.told) || strings.Contains(seen.text(), canary) {
				t.Errorf("the observer received %v, want %v:\n%s", kinds, c.told, seen.text())
			}
		})
	}
}

// TestReuse checks that one connection serves request after request, that the
// newest of several is taken, and that an old one is not.
func TestReuse(t *testing.T) {
	t.Parallel()
	clock := newClock()
	var mu sync.Mutex
	var used []int
	p := newPeer(t, func(c *peerConn) {
		for c.request() != nil {
			mu.Lock()
			used = append(used, c.n)
			mu.Unlock()
			c.say(okAnswer)
		}
	})
	f, seen := start(t, func(o *Options) { o.Now = clock.now; o.IdleTimeout = time.Minute }, p.addr)
	is := f.issuers[0]
	first, second := dialed(t, is), dialed(t, is)
	is.put(first)
	clock.add(30 * time.Second)
	is.put(second)
	for range 3 {
		wantOK(t, get(f))
	}
	if !slices.Equal(used, []int{2, 2, 2}) {
		t.Errorf("the requests went over the connections %v, want the newest each time", used)
	}
	clock.add(31 * time.Second)
	is.sweep(clock.now())
	if n := seen.conns.Load(); n != 1 {
		t.Errorf("%d connections are open, want the older one closed", n)
	}
	clock.add(30 * time.Second)
	wantOK(t, get(f))
	if !slices.Equal(used, []int{2, 2, 2, 3}) {
		t.Errorf("the requests went over the connections %v, want a new one after the idle timeout", used)
	}
}

// TestMaximumAge: a connection that is always in use is replaced after a while, so that an
// issuer whose name leads elsewhere is found.
func TestMaximumAge(t *testing.T) {
	t.Parallel()
	clock := newClock()
	p := newPeer(t, func(c *peerConn) {
		for c.request() != nil {
			c.say(okAnswer)
		}
	})
	f, seen := start(t, func(o *Options) { o.Now = clock.now; o.IdleTimeout = time.Hour }, p.addr)
	made := make(map[*conn]bool)
	for range 20 * 60 { // a request each second for twenty minutes
		wantOK(t, get(f))
		f.issuers[0].mu.Lock()
		made[f.issuers[0].idle[0]] = true
		f.issuers[0].mu.Unlock()
		clock.add(time.Second)
	}
	if n := len(made); n < 10 || n > 21 {
		t.Errorf("%d connections were made in twenty minutes, want one in one to two minutes", n)
	}
	if n := seen.conns.Load(); n != 1 {
		t.Errorf("%d connections are open", n)
	}
}

func dialed(t testing.TB, is *issuer) *conn {
	t.Helper()
	c, err := is.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type testClock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *testClock { return &testClock{at: time.Unix(1_700_000_000, 0)} }

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// brokenConn takes a number of bytes and then fails like a reset connection. It
// is not a socket, so the check before use is the one for systems that cannot
// read without waiting.
type brokenConn struct {
	net.Conn
	takes  int
	broken bool
}

func (c *brokenConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p[:min(len(p), c.takes)])
	c.takes -= n
	if err == nil && n < len(p) {
		c.broken, err = true, errReset
	}
	return n, err
}

func (c *brokenConn) Read(p []byte) (int, error) {
	if c.broken {
		return 0, errReset
	}
	return c.Conn.Read(p)
}

var errReset = errors.New("connection reset by peer")

// TestSentOnce breaks a kept connection at the first write. The request is sent
// on another connection only if no byte of it was written.
func TestSentOnce(t *testing.T) {
	t.Parallel()
	for takes, again := range map[int]bool{0: true, 1: false, 20: false} {
		p := newPeer(t, answers(okAnswer))
		f, _ := start(t, nil, p.addr)
		is := f.issuers[0]
		broken := dialed(t, is)
		eventually(t, "the peer has the connection", func() bool { return p.conns.Load() == 1 })
		broken.Conn, broken.now = &brokenConn{Conn: broken.socket, takes: takes}, nil
		is.put(broken)
		got := post(f, "body")
		if again {
			wantOK(t, got)
			continue
		}
		if got.err == nil || got.err.Kind != KindClosed || !got.err.Forwarded {
			t.Errorf("after %d bytes: %v, want an error of a request that was sent in part", takes, got.err)
		}
		if n := p.requests.Load(); n != 0 || p.conns.Load() != 1 {
			t.Errorf("after %d bytes: %d requests arrived over %d connections, want none over the first", takes, n, p.conns.Load())
		}
	}
}
