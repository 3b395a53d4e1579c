package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A scriptConn is a connection to an issuer. After the first write to it, it
// returns fixed bytes, and then ends.
type scriptConn struct {
	net.Conn
	answer *bytes.Reader
	begin  chan struct{}
	once   sync.Once
}

func newScriptConn(answer []byte) *scriptConn {
	return &scriptConn{answer: bytes.NewReader(answer), begin: make(chan struct{})}
}

func (c *scriptConn) start() { c.once.Do(func() { close(c.begin) }) }

func (c *scriptConn) Write(p []byte) (int, error)      { c.start(); return len(p), nil }
func (c *scriptConn) Read(p []byte) (int, error)       { <-c.begin; return c.answer.Read(p) }
func (c *scriptConn) Close() error                     { c.start(); return nil }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }
func (c *scriptConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scriptConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// A reading is an answer as a client has read it.
type reading struct {
	status int
	header http.Header
	body   []byte
	length int64
	failed error // of the head
	cut    bool  // the body failed
}

// readByForward reads an answer with this package.
func readByForward(t testing.TB, method string, answer []byte) (r reading) {
	t.Helper()
	f, err := newForwarder(Options{Issuers: []Issuer{{Address: "issuer:1"}}, FailAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	f.issuers[0].dialer = func(context.Context, string, string) (net.Conn, error) { return newScriptConn(answer), nil }
	a, err := f.Do(context.Background(), &Request{Method: method, Target: "/"})
	if err != nil {
		var typed *Error
		if !errors.As(err, &typed) || typed.Kind.Status() == 0 {
			t.Fatalf("the error is %#v, which a gateway cannot answer", err)
		}
		return reading{failed: err}
	}
	r = reading{status: a.Status, header: headerOf(a), length: a.Length}
	var cut error
	r.body, cut = io.ReadAll(a)
	r.cut = cut != nil
	_ = a.Close()
	f.issuers[0].shut()
	if n := f.issuers[0].outstanding.Load(); n != 0 {
		t.Fatalf("%d requests are outstanding after the answer", n)
	}
	return r
}

// readByNetHTTP reads it with the client of net/http.
func readByNetHTTP(method string, answer []byte) (r reading) {
	transport := &http.Transport{
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return newScriptConn(answer), nil },
	}
	defer transport.CloseIdleConnections()
	request, _ := http.NewRequestWithContext(context.Background(), method, "http://issuer:1/", nil)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return reading{failed: err}
	}
	defer response.Body.Close()
	r = reading{status: response.StatusCode, header: response.Header, length: response.ContentLength}
	r.body, err = io.ReadAll(response.Body)
	r.cut = err != nil
	return r
}

// sameReading checks that net/http reads an answer that the package accepts in
// the same way. It reports whether the package accepted the head.
func sameReading(t testing.TB, method string, answer []byte) bool {
	t.Helper()
	ours := readByForward(t, method, answer)
	if ours.failed != nil {
		return false
	}
	theirs := readByNetHTTP(method, answer)
	if theirs.failed != nil {
		t.Fatalf("forward accepts %q, net/http does not: %v", answer, theirs.failed)
	}
	named := strings.Split(strings.Join(connectionLines(answer), ","), ",")
	for name := range theirs.header {
		hop := slices.Contains([]string{"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}, name)
		hop = hop || strings.HasPrefix(name, "Proxy-") || name == "Content-Length" && theirs.status == 204
		if hop || slices.ContainsFunc(named, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) }) {
			delete(theirs.header, name)
		}
	}
	if length := theirs.header["Content-Length"]; len(length) == 1 { // net/http keeps leading zeros
		n, _ := strconv.ParseInt(length[0], 10, 64)
		length[0] = strconv.FormatInt(n, 10)
	}
	switch {
	case ours.status != theirs.status,
		!maps.EqualFunc(ours.header, theirs.header, slices.Equal),
		ours.cut != theirs.cut,
		!ours.cut && !bytes.Equal(ours.body, theirs.body),
		!ours.cut && ours.length >= 0 && int64(len(ours.body)) != ours.length:
		t.Fatalf("%s: of %q\nforward reads %+v\nnet/http reads %+v", method, answer, ours, theirs)
	}
	return true
}

// connectionLines returns the values of the Connection lines of the last head.
func connectionLines(answer []byte) (values []string) {
	head, rest, _ := strings.Cut(string(answer), "\r\n\r\n")
	if len(head) > len("HTTP/1.1 1") && head[9] == '1' {
		return connectionLines([]byte(rest))
	}
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(name, "Connection") {
			values = append(values, value)
		}
	}
	return values
}

// anAnswer makes an answer. It may be correct, or wrong in a small way.
func anAnswer(r *rand.Rand) []byte {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	often := func(usual string, s ...string) string {
		if r.IntN(12) > 0 {
			return usual
		}
		return pick(s...)
	}
	var b strings.Builder
	for r.IntN(6) == 0 && b.Len() < 300 {
		b.WriteString(pick("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 \r\nLink: </a>\r\n\r\n", "HTTP/1.1 102 P\r\nContent-Length: 3\r\n\r\n"))
	}
	body := strings.Repeat(pick("", "a", "body\r\n", "0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "\x00\xff"), r.IntN(4)*r.IntN(600))
	end := often("\r\n", "\n", "\r\r\n", " \r\n")
	b.WriteString(often("HTTP/1.1", "HTTP/1.0", "HTTP/1.10", "HTTP/2.0", "http/1.1", "HTTP/1.2") + often(" ", "  ", "\t", "") +
		often(pick("200", "201", "204", "304", "404", "500", "599", "205", "206"), "099", "600", "101", "2", "20x", "+20", "1000") +
		often(pick(" OK", "", " ", " a b\xff"), "x", " \x00") + end)
	for range r.IntN(6) {
		b.WriteString(often(pick("X: 1", "x-y:2", "Set-Cookie: a=b", "Set-Cookie: c=d ", "Content-Type: text/plain", "Pragma: no-cache", "Pragma: x", "cache-Control: a", "X-Pad: \t a \t ",
			"Keep-Alive: 5", "Proxy-Thing: 1", "Upgrade: h2c", "Trailer: X", "TE: x", "Date:\t\tnow", "Empty:"),
			"X : 1", " folded", "\tfolded", "no colon", ": x", "X: \x01", "X(: 1", "Trailer: Content-Length", "X: \xc3\xa9") + often("\r\n", "\n", "\r"))
	}
	if r.IntN(3) == 0 {
		b.WriteString("Connection: " + pick("close", "keep-alive", "Close, X", "x-y, set-cookie", "X", "keep-alive, close", "") + "\r\n")
	}
	length := often("", "0", "000") + fmt.Sprint(len(body)+often2(r, 0, 1, -1))
	framing := []string{"", "Content-Length: " + length + "\r\n", "Transfer-Encoding: chunked\r\n"}
	b.WriteString(often(pick(framing...), framing[1]+framing[2], framing[1]+framing[1], "Content-Length: 2\r\nContent-Length: 3\r\n",
		"Content-Length: +1\r\n", "Content-Length: 1 1\r\n", "Content-Length:\r\n", "transfer-encoding:  CHUNKED \r\n",
		"Transfer-Encoding: identity\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chun\u212aed\r\n", "Content-Length: 0x2\r\n"))
	b.WriteString("\r\n")
	if strings.Contains(strings.ToLower(b.String()), "chunked") && r.IntN(12) > 0 {
		for rest := body; rest != ""; {
			n := 1 + r.IntN(len(rest))
			fmt.Fprintf(&b, "%x%s\r\n%s%s", n, often("", ";a=b", " ", ";\"\r"), rest[:n], often("\r\n", "\n", "", "x\r\n"))
			rest = rest[n:]
		}
		b.WriteString(often("0\r\n", "00\r\n", "", "0\n", "-0\r\n") + often("", "X: 1\r\n", "bad\r\n", " x\r\n") + often("\r\n", "", "\n"))
	} else {
		b.WriteString(body)
	}
	b.WriteString(often("", "\r\n", "HTTP/1.1 200 OK\r\n\r\n", "x"))
	return mutated(r, []byte(b.String()))
}

func often2(r *rand.Rand, usual int, others ...int) int {
	if r.IntN(10) > 0 {
		return usual
	}
	return others[r.IntN(len(others))]
}

// mutated changes a byte of one answer in six, or cuts it.
func mutated(r *rand.Rand, b []byte) []byte {
	switch at := r.IntN(len(b)); r.IntN(12) {
	case 0:
		b[at] = byte(r.Uint32())
	case 1:
		b = b[:at]
	}
	return b
}

// quiet stops net/http from logging the bytes that it reads after an answer.
func quiet(t testing.TB) {
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
}

// TestReadsWhatNetHTTPReads compares 10,000 generated answers.
func TestReadsWhatNetHTTPReads(t *testing.T) {
	quiet(t)
	accepted := 0
	for seed := range uint64(10_000) {
		r := rand.New(rand.NewPCG(seed, 12))
		method := []string{"GET", "POST", "HEAD"}[r.IntN(3)]
		if sameReading(t, method, anAnswer(r)) {
			accepted++
		}
	}
	if accepted < 2_000 || accepted > 8_000 {
		t.Errorf("%d of 10,000 answers were accepted; the generator no longer tests both sides", accepted)
	}
}

// FuzzAnswer looks for bytes that the package and net/http read differently.
func FuzzAnswer(f *testing.F) {
	quiet(f)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 13))
		f.Add(anAnswer(r), seed%3 == 0)
	}
	f.Fuzz(func(t *testing.T, answer []byte, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		sameReading(t, method, answer)
	})
}
