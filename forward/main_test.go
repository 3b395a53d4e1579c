package forward

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer is a raw server in the place of an issuer. It calls serve for each
// connection. Connections are numbered from 1.
type peer struct {
	addr     string
	listener net.Listener
	serve    func(c *peerConn)
	conns    atomic.Int32
	requests atomic.Int32
	mu       sync.Mutex
	open     map[net.Conn]bool
	handlers sync.WaitGroup
	closing  chan struct{} // closed when the peer is closed
}

type peerConn struct {
	net.Conn
	p  *peer
	n  int // from 1 on
	br *bufio.Reader
}

func newPeer(t testing.TB, serve func(c *peerConn)) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return peerOn(t, listener, serve)
}

func peerOn(t testing.TB, listener net.Listener, serve func(c *peerConn)) *peer {
	p := &peer{addr: listener.Addr().String(), listener: listener, serve: serve, open: map[net.Conn]bool{}, closing: make(chan struct{})}
	p.handlers.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *peer) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.open[c] = true
		p.mu.Unlock()
		n := int(p.conns.Add(1))
		p.handlers.Go(func() {
			defer func() {
				_ = c.Close()
				p.mu.Lock()
				delete(p.open, c)
				p.mu.Unlock()
			}()
			p.serve(&peerConn{Conn: c, p: p, n: n, br: bufio.NewReader(c)})
		})
	}
}

func (p *peer) close() {
	close(p.closing)
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.handlers.Wait()
}

// request reads one request with its body. It returns nil at the end of the
// connection.
func (c *peerConn) request() *http.Request {
	r, err := http.ReadRequest(c.br)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.p.requests.Add(1)
	return r
}

func (c *peerConn) say(text string) { _, _ = io.WriteString(c.Conn, text) }

// answers serves the same bytes to each request of each connection.
func answers(text string) func(*peerConn) {
	return func(c *peerConn) {
		for c.request() != nil {
			c.say(text)
		}
	}
}

// waits returns when the channel is closed, or at the end of the test.
func (c *peerConn) waits(until <-chan struct{}) {
	select {
	case <-until:
	case <-c.p.closing:
	}
}

// hears waits until the other side has closed.
func (c *peerConn) hears() { _, _ = io.Copy(io.Discard, c.br) }

// problems collects what an observer receives.
type problems struct {
	mu    sync.Mutex
	all   []*Error
	conns atomic.Int64
	fly   atomic.Int64
	out   atomic.Int64
	lost  time.Duration // of all issuers
	came  []string      // statuses and kinds of failures
}

func (p *problems) observer() Observer {
	return Observer{
		Connections: func(_ string, delta int) { p.conns.Add(int64(delta)) },
		InFlight:    func(_ string, delta int) { p.fly.Add(int64(delta)) },
		Answered: func(_ string, status int, failure *Error, _ time.Duration) {
			p.mu.Lock()
			defer p.mu.Unlock()
			text := strconv.Itoa(status)
			if failure != nil {
				text = failure.Kind.String()
			}
			p.came = append(p.came, text)
		},
		Out: func(_ string, delta int, lasted time.Duration) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.out.Add(int64(delta))
			p.lost += lasted
		},
		Problem: func(e *Error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.all = append(p.all, e)
		},
	}
}

func (p *problems) kinds() (kinds []Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.all {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (p *problems) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := ""
	for _, e := range p.all {
		text += e.Error() + "\n"
	}
	return text
}

// start returns a forwarder to the addresses, closed at the end of the test,
// which also checks that no connection is counted afterwards.
func start(t testing.TB, change func(o *Options), addrs ...string) (*Forwarder, *problems) {
	t.Helper()
	seen := &problems{}
	o := Options{FailAfter: -1, Observer: seen.observer()}
	for _, addr := range addrs {
		o.Issuers = append(o.Issuers, Issuer{Address: addr})
	}
	if change != nil {
		change(&o)
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		if n := seen.conns.Load(); n != 0 {
			t.Errorf("%d connections are counted as open at the end", n)
		}
		if n := seen.fly.Load() + seen.out.Load(); n != 0 {
			t.Errorf("%d requests or issuers are counted as in flight or out at the end", n)
		}
		for _, is := range f.issuers {
			if n := is.outstanding.Load(); n != 0 {
				t.Errorf("%d requests to %s are counted as outstanding at the end", n, is.name)
			}
		}
	})
	return f, seen
}

// result is an answer with its body, or an error.
type result struct {
	status int
	header http.Header
	body   string
	err    *Error // of the head, or of the body
}

func fetchOf(ctx context.Context, f *Forwarder, r *Request) (got result) {
	answer, err := f.Do(ctx, r)
	if err != nil {
		errors.As(err, &got.err)
		return got
	}
	got.status, got.header = answer.Status, headerOf(answer)
	var body bytes.Buffer
	if _, err := answer.CopyTo(&body, nil); err != nil {
		errors.As(err, &got.err)
	}
	got.body = body.String()
	return got
}

func get(f *Forwarder) result {
	return fetchOf(context.Background(), f, &Request{Method: "GET", Target: "/"})
}

func post(f *Forwarder, body string) result {
	return fetchOf(context.Background(), f, &Request{Method: "POST", Target: "/", Body: []byte(body)})
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func wantOK(t testing.TB, got result) {
	t.Helper()
	if got.err != nil || got.status != 200 || got.body != "ok" {
		t.Fatalf("the answer is %d %q, %v; want 200 ok", got.status, got.body, got.err)
	}
}

// eventually waits until another goroutine has made ok return true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after 30 s: %s", what)
		}
	}
}
