package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// received is one request exactly as it reached the upstream.
type received struct {
	conn    int      // number of the connection, from 1
	line    string   // the request line
	headers []string // the header lines, as they came
	body    string   // without the framing
	framed  string   // the bytes behind the head, with the framing
}

// values returns the values of a header, whatever its case.
func (r *received) values(name string) []string {
	var all []string
	for _, line := range r.headers {
		if n, value, _ := strings.Cut(line, ":"); strings.EqualFold(n, name) {
			all = append(all, strings.TrimSpace(value))
		}
	}
	return all
}

func (r *received) value(name string) string { return strings.Join(r.values(name), " | ") }

func (r *received) raw() string {
	return r.line + "\r\n" + strings.Join(r.headers, "\r\n") + "\r\n\r\n" + r.framed
}

// A reply is what the upstream sends: raw bytes; without any it hangs up.
type reply struct {
	raw    string
	wait   <-chan struct{} // first wait for this
	hangUp bool            // close the connection behind the bytes
}

// answer returns a reply with a correct Content-Length. Headers are lines.
func answer(status int, body string, headers ...string) reply {
	head := append([]string{fmt.Sprintf("HTTP/1.1 %d Whatever", status), "Content-Length: " + strconv.Itoa(len(body))}, headers...)
	return reply{raw: strings.Join(head, "\r\n") + "\r\n\r\n" + body}
}

// upstream stands in the place of the issuer and records the raw bytes of
// what reaches it.
type upstream struct {
	t        testing.TB
	addr     string
	listener net.Listener

	mu       sync.Mutex
	reply    func(*received) reply
	conns    int
	open     map[net.Conn]bool
	requests []*received
	bytes    int
}

// startUpstream serves `{"ok":true}` until the test says otherwise.
func startUpstream(t testing.TB) *upstream {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{t: t, addr: listener.Addr().String(), listener: listener, open: make(map[net.Conn]bool)}
	u.replies(answer(200, `{"ok":true}`, "Content-Type: application/json"))
	go u.serve()
	t.Cleanup(u.close)
	return u
}

func (u *upstream) serve() {
	for {
		conn, err := u.listener.Accept()
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

func (u *upstream) close() {
	_ = u.listener.Close()
	u.mu.Lock()
	defer u.mu.Unlock()
	for conn := range u.open {
		_ = conn.Close()
	}
}

func (u *upstream) talk(conn net.Conn, number int) {
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
		r.conn = number
		u.mu.Lock()
		u.requests = append(u.requests, r)
		reply := u.reply
		u.mu.Unlock()
		send := reply(r)
		if send.wait != nil {
			<-send.wait
		}
		if _, err := io.WriteString(conn, send.raw); err != nil || send.hangUp || send.raw == "" {
			return
		}
	}
}

// counted counts the bytes that the upstream is sent.
type counted struct {
	net.Conn
	u *upstream
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.u.mu.Lock()
	c.u.bytes += n
	c.u.mu.Unlock()
	return n, err
}

func readRequest(in *bufio.Reader) (*received, error) {
	r := new(received)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		switch {
		case r.line == "":
			r.line = line
		case line != "":
			r.headers = append(r.headers, line)
		default:
			return r, r.readBody(in)
		}
	}
}

// readBody trusts Transfer-Encoding first, as a careless server would.
func (r *received) readBody(in *bufio.Reader) error {
	if strings.Contains(strings.ToLower(r.value("Transfer-Encoding")), "chunked") {
		return r.readChunks(in)
	}
	length, err := strconv.Atoi(r.value("Content-Length"))
	if err != nil {
		return nil
	}
	body := make([]byte, length)
	_, err = io.ReadFull(in, body)
	r.body, r.framed = string(body), string(body)
	return err
}

func (r *received) readChunks(in *bufio.Reader) error {
	for last := false; ; {
		line, err := in.ReadString('\n')
		r.framed += line
		if err != nil || last && strings.TrimSpace(line) == "" {
			return err
		}
		if last {
			continue
		}
		size, err := strconv.ParseInt(strings.TrimSpace(line), 16, 32)
		if err != nil {
			return err
		}
		if last = size == 0; last {
			continue
		}
		chunk := make([]byte, size+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return err
		}
		r.framed += string(chunk)
		r.body += string(chunk[:size])
	}
}

// replies makes the upstream answer every request alike.
func (u *upstream) replies(with reply) { u.does(func(*received) reply { return with }) }

// does makes the upstream answer as the function says.
func (u *upstream) does(f func(*received) reply) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reply = f
}

// took returns the requests since the last call of took.
func (u *upstream) took() []*received {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.requests
	u.requests = nil
	return all
}

// one returns the only request since the last call of took or one.
func (u *upstream) one(t testing.TB) *received {
	t.Helper()
	all := u.took()
	if len(all) != 1 {
		t.Fatalf("%d requests reached the upstream, want 1: %q", len(all), lines(all))
	}
	return all[0]
}

// none fails the test if a request reached the upstream.
func (u *upstream) none(t testing.TB) {
	t.Helper()
	if all := u.took(); len(all) > 0 {
		t.Errorf("%d requests reached the upstream, want none: %q", len(all), lines(all))
	}
}

// traffic returns how many connections were made and bytes came, ever.
func (u *upstream) traffic() (conns, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conns, u.bytes
}

func lines(all []*received) []string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = r.line
	}
	return texts
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it never happened that %s", what)
}
