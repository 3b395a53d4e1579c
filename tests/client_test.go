package tests

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file holds the client side of the tests. It signs by the published
// interface alone and shares nothing with the code under test.

// request is one request as it goes over the wire.
type request struct {
	method, target string
	headers        []string // lines; the five authentication headers are among them
	body           string
	source         string // local address to send from; empty: any
}

// request returns a request that is signed as sent, at this moment.
func (c credentials) request(method, target, body string) *request {
	return c.requestAt(time.Now(), method, target, body)
}

func (c credentials) requestAt(at time.Time, method, target, body string) *request {
	r := &request{method: method, target: target, body: body}
	r.set("X-API-Key", c.id)
	r.set("X-Timestamp", strconv.FormatInt(at.Unix(), 10))
	r.set("X-Nonce", rand.Text())
	r.set("X-Body-Hash", bodyHash(body))
	return r.sign(c.secret)
}

// get returns a signed request for a card.
func (c credentials) get() *request { return c.request(http.MethodGet, "/api/v1/cards/c1", "") }

// post returns a signed request with a body.
func (c credentials) post() *request {
	return c.request(http.MethodPost, "/api/v1/cards", `{"productId":"p1"}`)
}

// sign signs what the headers say now.
func (r *request) sign(secret string) *request {
	return r.set("X-Signature", base64.StdEncoding.EncodeToString(r.digest(secret)))
}

func (r *request) digest(secret string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	io.WriteString(mac, strings.Join([]string{
		r.method, r.target, r.value("X-Timestamp"), r.value("X-Nonce"), r.value("X-Body-Hash"),
	}, "\n"))
	return mac.Sum(nil)
}

func bodyHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func named(line, name string) bool {
	n, _, _ := strings.Cut(line, ":")
	return strings.EqualFold(n, name)
}

// drop removes a header.
func (r *request) drop(name string) *request {
	var kept []string
	for _, line := range r.headers {
		if !named(line, name) {
			kept = append(kept, line)
		}
	}
	r.headers = kept
	return r
}

// set gives a header one value.
func (r *request) set(name, value string) *request { return r.drop(name).add(name, value) }

// add adds a line to the headers.
func (r *request) add(name, value string) *request {
	r.headers = append(r.headers, name+": "+value)
	return r
}

func (r *request) value(name string) string {
	for _, line := range r.headers {
		if named(line, name) {
			_, value, _ := strings.Cut(line, ":")
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// forge gives the request a signature of the right form that is wrong.
func (r *request) forge() *request {
	return r.set("X-Signature", base64.StdEncoding.EncodeToString(make([]byte, sha256.Size)))
}

// from sends the request from another address of this machine.
func (r *request) from(source string) *request {
	r.source = source
	return r
}

// head returns the request line and the headers, framing included.
func (r *request) head() string {
	all := append([]string{r.method + " " + r.target + " HTTP/1.1"}, r.headers...)
	if r.value("Host") == "" {
		all = append(all, "Host: gw.example")
	}
	if r.value("Content-Length") == "" && r.value("Transfer-Encoding") == "" && r.body != "" {
		all = append(all, "Content-Length: "+strconv.Itoa(len(r.body)))
	}
	return strings.Join(all, "\r\n") + "\r\n\r\n"
}

// response is one answer.
type response struct {
	status        int
	header        http.Header
	body          string
	informational []int // statuses of the 1xx answers before it
}

func (r *response) String() string { return fmt.Sprintf("%d %s", r.status, r.body) }

// a wire is one connection to the gateway.
type wire struct {
	net.Conn
	in *bufio.Reader
}

func (g *gateway) dial(source string) (*wire, error) {
	d := net.Dialer{Timeout: patience}
	if source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	conn, err := d.Dial("tcp", g.addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &wire{conn, bufio.NewReader(conn)}, nil
}

// connect dials and fails the test where that fails.
func (g *gateway) connect(t testing.TB) *wire {
	t.Helper()
	w, err := g.dial("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func (w *wire) write(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// receive reads one answer; the method tells whether it has a body.
func (w *wire) receive(method string) (*response, error) {
	r := new(response)
	for {
		answer, err := http.ReadResponse(w.in, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if answer.StatusCode < 200 {
			r.informational = append(r.informational, answer.StatusCode)
			continue
		}
		body, err := io.ReadAll(answer.Body)
		r.status, r.header, r.body = answer.StatusCode, answer.Header, string(body)
		return r, err
	}
}

// exchange sends a request over the connection and reads the answer.
func (w *wire) exchange(r *request) (*response, error) {
	_ = w.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(w, r.head()+r.body); err != nil {
		return nil, err
	}
	return w.receive(r.method)
}

// try sends a request over a connection of its own.
func (g *gateway) try(r *request) (*response, error) {
	w, err := g.dial(r.source)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.exchange(r)
}

// send sends a request and expects any answer.
func (g *gateway) send(t testing.TB, r *request) *response {
	t.Helper()
	answer, err := g.try(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	return answer
}

// sendRaw sends bytes and returns the answer to them.
func (g *gateway) sendRaw(t testing.TB, text string) *response {
	t.Helper()
	w := g.connect(t)
	defer w.Close()
	w.write(t, text)
	method, _, _ := strings.Cut(text, " ")
	answer, err := w.receive(method)
	if err != nil {
		t.Fatalf("after %.80q: %v", text, err)
	}
	return answer
}

// atOnce sends the requests at the same instant: all but the last byte of
// each first, then the rest.
func (g *gateway) atOnce(t testing.TB, requests []*request) []*response {
	t.Helper()
	wires, last := make([]*wire, len(requests)), make([]string, len(requests))
	for i, r := range requests {
		text := r.head() + r.body
		wires[i] = g.connect(t)
		wires[i].write(t, text[:len(text)-1])
		last[i] = text[len(text)-1:]
	}
	answers := make([]*response, len(requests))
	var all sync.WaitGroup
	start := make(chan struct{})
	for i, w := range wires {
		all.Go(func() {
			<-start
			if _, err := io.WriteString(w, last[i]); err != nil {
				t.Error(err)
				return
			}
			answer, err := w.receive(requests[i].method)
			if err != nil {
				t.Error(err)
			}
			answers[i] = answer
			_ = w.Close()
		})
	}
	close(start)
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return answers
}
