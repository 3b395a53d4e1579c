package harness

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Response is one answer.
type Response struct {
	Status        int
	Header        http.Header
	Body          string
	Informational []int // statuses of the 1xx answers before it
	Closes        bool  // the connection ends with it; net/http removes the header
}

func (r *Response) String() string { return fmt.Sprintf("%d %s", r.Status, r.Body) }

// A Wire is one connection to the gateway.
type Wire struct {
	net.Conn
	In *bufio.Reader
}

// Dial opens a connection from a local address. If source is empty, the system
// chooses the address.
func (g *Gateway) Dial(source string) (*Wire, error) {
	d := net.Dialer{Timeout: Patience}
	if source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	conn, err := d.Dial("tcp", g.Addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(Patience))
	return &Wire{&watched{Conn: conn}, bufio.NewReader(conn)}, nil
}

// Connect dials, and fails the test if that fails.
func (g *Gateway) Connect(t testing.TB) *Wire {
	t.Helper()
	w, err := g.Dial("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// CloseWrite ends what the client sends: over TLS by close_notify alone.
func (w *Wire) CloseWrite() error {
	conn := w.Conn
	if c, seen := conn.(*watched); seen {
		conn = c.Conn
	}
	if half, can := conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Socket returns the TCP connection below.
func (w *Wire) Socket() *net.TCPConn {
	conn := w.Conn
	if c, seen := conn.(*watched); seen {
		conn = c.Conn
	}
	if c, secured := conn.(*tls.Conn); secured {
		conn = c.NetConn()
	}
	return conn.(*net.TCPConn)
}

// Reset ends the connection at once, for both sides.
func (w *Wire) Reset() {
	_ = w.Socket().SetLinger(0)
	_ = w.Socket().Close()
}

// WriteText sends bytes without changes.
func (w *Wire) WriteText(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// Receive reads one answer. The method decides whether it has a body.
func (w *Wire) Receive(method string) (*Response, error) {
	r := new(Response)
	for {
		answer, err := http.ReadResponse(w.In, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if answer.StatusCode < 200 {
			r.Informational = append(r.Informational, answer.StatusCode)
			continue
		}
		body, err := io.ReadAll(answer.Body)
		r.Status, r.Header, r.Body, r.Closes = answer.StatusCode, answer.Header, string(body), answer.Close
		return r, err
	}
}

// Exchange sends a request over the connection and reads the answer.
func (w *Wire) Exchange(r *Request) (*Response, error) {
	_ = w.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(w, r.Head()+r.Body); err != nil {
		return nil, err
	}
	answer, err := w.Receive(r.Method)
	if err == nil {
		recordAnswer(r.Method, r.Target, answer)
	}
	return answer, err
}

// Try sends a request over a new connection.
func (g *Gateway) Try(r *Request) (*Response, error) {
	w, err := g.Dial(r.Source)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.Exchange(r)
}

// Send sends a request. It fails the test if there is no answer.
func (g *Gateway) Send(t testing.TB, r *Request) *Response {
	t.Helper()
	answer, err := g.Try(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.Target, err)
	}
	return answer
}

// SendRaw sends bytes and returns the answer to them.
func (g *Gateway) SendRaw(t testing.TB, text string) *Response {
	t.Helper()
	w := g.Connect(t)
	defer w.Close()
	w.WriteText(t, text)
	method, rest, _ := strings.Cut(text, " ")
	answer, err := w.Receive(method)
	if err != nil {
		t.Fatalf("after %.80q: %v", text, err)
	}
	target, _, _ := strings.Cut(rest, " ")
	recordAnswer(method, target, answer)
	return answer
}

// Series sends requests one after the other.
func (g *Gateway) Series(t testing.TB, requests []*Request) []*Response {
	t.Helper()
	w := g.Connect(t)
	defer w.Close()
	answers := make([]*Response, len(requests))
	for i, r := range requests {
		answer, err := w.Exchange(r)
		if err != nil {
			t.Fatal(err)
		}
		answers[i] = answer
	}
	return answers
}

// Insist sends a request until there is an answer, and returns how often it was
// repeated. Use it while a server stops, because a stopping server drops
// connections on which no request has arrived.
func (g *Gateway) Insist(t testing.TB, r *Request) (answer *Response, again int) {
	t.Helper()
	for ; again < 1000; again++ {
		answer, err := g.Try(r)
		if err == nil {
			return answer, again
		}
	}
	t.Error("no connection was answered")
	return &Response{Header: make(http.Header)}, again
}

// AtOnce sends the requests at the same instant.
func (g *Gateway) AtOnce(t testing.TB, requests []*Request) []*Response {
	t.Helper()
	return SendAtOnce(t, []*Gateway{g}, requests)
}

// SendAtOnce sends the requests at the same instant, each to the next of the
// gateways in turn: all but the last byte of each first, then the rest.
func SendAtOnce(t testing.TB, gateways []*Gateway, requests []*Request) []*Response {
	t.Helper()
	wires, last := make([]*Wire, len(requests)), make([]string, len(requests))
	for i, r := range requests {
		text := r.Head() + r.Body
		wires[i] = gateways[i%len(gateways)].Connect(t)
		wires[i].WriteText(t, text[:len(text)-1])
		last[i] = text[len(text)-1:]
	}
	answers, errs := make([]*Response, len(requests)), make([]error, len(requests))
	var all sync.WaitGroup
	start := make(chan struct{})
	for i, w := range wires {
		all.Go(func() {
			<-start
			if _, errs[i] = io.WriteString(w, last[i]); errs[i] == nil {
				answers[i], errs[i] = w.Receive(requests[i].Method)
			}
			_ = w.Close()
		})
	}
	close(start)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return answers
}
