//go:build linux

package docs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A site is an address that a client sends to over TLS.
type site struct {
	name   string // host, or host and port
	client *http.Client
}

// site returns the site of that name. Its certificate must be of the authority that
// the page makes.
func (w *walk) site(name string) *site {
	w.t.Helper()
	pem, err := os.ReadFile(filepath.Join(w.own, "secrets/ca.pem"))
	if err != nil {
		w.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &site{name: name, client: &http.Client{Transport: transport, Timeout: harness.Patience}}
}

// try sends a request, once.
func (s *site) try(r *harness.Request) (*harness.Response, error) {
	request, err := http.NewRequest(r.Method, "https://"+s.name+r.Target, io.NopCloser(strings.NewReader(r.Body)))
	if err != nil {
		return nil, err
	}
	request.ContentLength = int64(len(r.Body))
	for _, line := range r.Headers {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Add(name, value)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return &harness.Response{Status: answer.StatusCode, Header: answer.Header, Body: string(body)}, err
}

// send sends a request that must be answered, and returns it as it was sent last: it
// is signed anew while the store is too slow.
func (s *site) send(t *testing.T, sign func() *harness.Request) (*harness.Request, *harness.Response) {
	t.Helper()
	for deadline := time.Now().Add(harness.Patience); ; {
		r := sign()
		answer, err := s.try(r)
		if err != nil {
			t.Fatalf("%s to %s: %v", r.Target, s.name, err)
		}
		if !slow(answer) || time.Now().After(deadline) {
			return r, answer
		}
	}
}

// slow reports whether a node has not forwarded a request because of the store.
func slow(r *harness.Response) bool {
	return r.Status == http.StatusServiceUnavailable && storeIsSlow(r.Body)
}

// A cardIssuer answers everything, and counts what it got, by node and by path.
type cardIssuer struct {
	mu    sync.Mutex
	nodes map[string]int
	paths map[string]int
}

const answerOfIssuer = `{"ok":true}`

// startIssuer serves on the address until the test ends.
func startIssuer(t *testing.T, address string) *cardIssuer {
	t.Helper()
	i := &cardIssuer{nodes: make(map[string]int), paths: make(map[string]int)}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: i, ReadHeaderTimeout: harness.Patience}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return i
}

// ServeHTTP takes a moment, as issuers do, so that there are requests in flight.
func (i *cardIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	node, _, _ := net.SplitHostPort(r.RemoteAddr)
	i.mu.Lock()
	i.nodes[node]++
	i.paths[r.URL.Path]++
	i.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answerOfIssuer)
}

// took waits for a number of requests, and returns how many of them each node sent.
func (i *cardIssuer) took(t *testing.T, number int) map[string]int {
	t.Helper()
	i.mu.Lock()
	i.nodes = make(map[string]int)
	i.mu.Unlock()
	var nodes map[string]int
	harness.Eventually(t, fmt.Sprintf("%d requests arrive", number), func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		nodes = map[string]int{nodeA: i.nodes[nodeA], nodeB: i.nodes[nodeB]}
		return nodes[nodeA]+nodes[nodeB] >= number
	})
	return nodes
}

// total returns how many requests with the path have arrived.
func (i *cardIssuer) total(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.paths[path]
}

// traffic are clients that send without a pause.
type traffic struct {
	t       *testing.T
	ended   chan struct{}
	clients sync.WaitGroup

	mu     sync.Mutex
	served int // answered by the issuer
}

const busyPath = "/api/v1/cards/c1/freeze"

// startTraffic makes four clients send one request after the other. A request
// without the issuer's answer fails the test.
func startTraffic(t *testing.T, to *site, key harness.Credentials) *traffic {
	x := &traffic{t: t, ended: make(chan struct{})}
	for range 4 {
		x.clients.Go(func() {
			for {
				select {
				case <-x.ended:
					return
				default:
				}
				answer, err := to.try(key.JSON(http.MethodPost, busyPath, "{}"))
				if err == nil && slow(answer) {
					continue
				}
				if err != nil || answer.Status != http.StatusOK || answer.Body != answerOfIssuer {
					t.Errorf("a request is lost: %v %v", answer, err)
				}
				x.mu.Lock()
				x.served++
				x.mu.Unlock()
			}
		})
	}
	return x
}

// stop ends the clients and returns how many of their requests were served.
func (x *traffic) stop() int {
	close(x.ended)
	x.clients.Wait()
	return x.served
}
