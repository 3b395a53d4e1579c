package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Reply is the answer of the upstream: raw bytes. If there are none, the
// upstream closes the connection.
type Reply struct {
	Raw    string
	Wait   <-chan struct{} // first wait for this
	HangUp bool            // close the connection after the bytes

	body int // bytes at the end of Raw that the answer to HEAD does not have
}

// Answer returns a reply with a correct Content-Length. Headers are lines.
//
// HEAD gets the head alone. A body there would be taken for the next answer on the
// connection, if net/http sends the next request before it has seen the bytes.
func Answer(status int, body string, headers ...string) Reply {
	head := append([]string{fmt.Sprintf("HTTP/1.1 %d Whatever", status), "Content-Length: " + strconv.Itoa(len(body))}, headers...)
	return Reply{Raw: strings.Join(head, "\r\n") + "\r\n\r\n" + body, body: len(body)}
}

// Upstream replaces the issuer and records the raw bytes of each request.
type Upstream struct {
	t        testing.TB
	Addr     string
	listener net.Listener

	mu       sync.Mutex
	reply    func(*Received) Reply
	conns    int
	open     map[net.Conn]bool
	requests []*Received
	bytes    int
	trusts   string  // why the witness is not asked
	wrong    []error // requests that must not have arrived
}

// StartUpstream starts an upstream. It answers `{"ok":true}` until the test
// changes that.
func StartUpstream(t testing.TB) *Upstream {
	t.Helper()
	listener, err := net.Listen("tcp", FreeAddress(t)) // which is still free after Close
	if err != nil {
		t.Fatal(err)
	}
	u := &Upstream{t: t, Addr: listener.Addr().String(), listener: listener, open: make(map[net.Conn]bool)}
	u.Replies(Answer(200, `{"ok":true}`, "Content-Type: application/json"))
	go u.serve(listener)
	t.Cleanup(func() {
		u.Close()
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, err := range u.wrong {
			t.Error(err)
		}
	})
	return u
}

// Reopen listens again on the address, after Close.
func (u *Upstream) Reopen() {
	u.t.Helper()
	Eventually(u.t, "the issuer's address is free", func() bool {
		listener, err := net.Listen("tcp", u.Addr)
		if err != nil {
			return false
		}
		u.mu.Lock()
		u.listener = listener
		u.mu.Unlock()
		go u.serve(listener)
		return true
	})
}

func (u *Upstream) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		u.conns++
		u.open[conn] = true
		number := u.conns
		u.mu.Unlock()
		go u.talk(conn, number)
	}
}

// Close closes all connections and no longer listens.
func (u *Upstream) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	_ = u.listener.Close()
	for conn := range u.open {
		_ = conn.Close()
	}
}

func (u *Upstream) talk(conn net.Conn, number int) {
	defer func() {
		u.mu.Lock()
		delete(u.open, conn)
		u.mu.Unlock()
		_ = conn.Close()
	}()
	in := bufio.NewReader(&counted{conn, u})
	for {
		r, err := readRequest(in)
		if err != nil {
			return
		}
		r.Conn = number
		u.mu.Lock()
		u.requests = append(u.requests, r)
		if u.trusts == "" {
			if err := theWitness.arrives(r); err != nil {
				u.wrong = append(u.wrong, fmt.Errorf("%q has reached the upstream, but %w", r.Line, err))
			}
		}
		reply := u.reply
		u.mu.Unlock()
		send := reply(r)
		if send.Wait != nil {
			<-send.Wait
		}
		if strings.HasPrefix(r.Line, "HEAD ") {
			send.Raw = send.Raw[:len(send.Raw)-send.body]
		}
		if _, err := io.WriteString(conn, send.Raw); err != nil || send.HangUp || send.Raw == "" {
			return
		}
	}
}

// counted counts the bytes that the upstream receives.
type counted struct {
	net.Conn
	u *Upstream
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.u.mu.Lock()
	c.u.bytes += n
	c.u.mu.Unlock()
	return n, err
}

// Replies makes the upstream answer every request with the same reply.
func (u *Upstream) Replies(with Reply) { u.Does(func(*Received) Reply { return with }) }

// Does makes the upstream answer with the reply of the function.
func (u *Upstream) Does(f func(*Received) Reply) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reply = f
}

// Trusts ends the check of what arrives. Tests call it if the clients of this package
// have not sent it, or if it must arrive unproved or changed; the reason says which.
func (u *Upstream) Trusts(reason string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.trusts = reason
}

// Unproved returns what reached the upstream although no client had sent it correctly
// signed. The test fails by it at its end in any case.
func (u *Upstream) Unproved() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return errors.Join(u.wrong...)
}

// Took returns the requests since the last call of Took.
func (u *Upstream) Took() []*Received {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.requests
	u.requests = nil
	return all
}

// One returns the only request since the last call of Took or One.
func (u *Upstream) One(t testing.TB) *Received {
	t.Helper()
	all := u.Took()
	if len(all) != 1 {
		t.Fatalf("%d requests reached the upstream, want 1: %q", len(all), Lines(all))
	}
	return all[0]
}

// None fails the test if a request reached the upstream.
func (u *Upstream) None(t testing.TB) {
	t.Helper()
	if all := u.Took(); len(all) > 0 {
		t.Errorf("%d requests reached the upstream, want none: %q", len(all), Lines(all))
	}
}

// Traffic returns the number of connections and of received bytes so far.
func (u *Upstream) Traffic() (conns, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conns, u.bytes
}

// Unasked sends bytes on every open connection, although no request waits for
// them. When it returns, they have arrived at the gateway's machine.
func (u *Upstream) Unasked(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for conn := range u.open {
		_, _ = io.WriteString(conn, text)
	}
}
