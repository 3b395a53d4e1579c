package tests

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// overHTTP2 sends a request over HTTP/2 without TLS.
func overHTTP2(t testing.TB, g *gateway) func(*request) *response {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return func(r *request) *response {
		t.Helper()
		path, query, _ := strings.Cut(r.target, "?")
		sent := &http.Request{
			Method: r.method, URL: &url.URL{Scheme: "http", Host: g.addr, Opaque: path, RawQuery: query},
			Header: make(http.Header), Body: io.NopCloser(strings.NewReader(r.body)), ContentLength: int64(len(r.body)),
		}
		for _, line := range r.headers {
			name, value, _ := strings.Cut(line, ": ")
			if name == "Trailer" {
				sent.Trailer = http.Header{value: {"evil"}}
				sent.ContentLength = -1
				continue
			}
			sent.Header[name] = append(sent.Header[name], value)
		}
		answer, err := transport.RoundTrip(sent)
		if err != nil {
			t.Errorf("%s %s: %v", r.method, r.target, err)
			return &response{header: make(http.Header)}
		}
		defer answer.Body.Close()
		if answer.ProtoMajor != 2 {
			t.Errorf("the answer came over %s", answer.Proto)
		}
		return &response{status: answer.StatusCode, header: answer.Header, body: readAll(t, answer.Body)}
	}
}

// TestHTTP2 sends signed requests over HTTP/2, where a request has no line and
// header names are in lower case.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, servers: "protocols h1 h2c"})
	key := g.newKey(nil)
	send := overHTTP2(t, g)
	for _, r := range []*request{
		key.get(),
		key.post(),
		key.request("GET", "/api/v1/%6frders/caf%c3%a9?next=%2fhome%3fa%3d1&q=a+b&&t[]=~", ""),
		key.request("DELETE", "/api/v1/orders/1", ""),
		key.request("POST", "/api/v1/orders", strings.Repeat("x", 500_000)),
		key.post().add("Te", "trailers").add("X-Gateway-Tenant", "evil").add("X_gateway_tenant", "evil"),
		key.post().add("Trailer", "X-Smuggled"),
	} {
		accepted(t, send(r))
		got := u.one(t)
		if got.line != r.method+" "+r.target+" HTTP/1.1" || got.framed != r.body {
			t.Errorf("the upstream received\n%.500s", got.raw())
		}
		wantHeaders(t, got, map[string]string{"X-Gateway-Tenant": "acme"})
		cleanOf(t, got)
	}
	unauthorized(t, send(key.get().forge()), wrongSignature)
	unauthorized(t, send(key.get().drop("X-Nonce")), missingHeaders)
	unauthorized(t, send(key.get().add("x-nonce", "second")), missingHeaders)
	refused(t, send(key.request("GET", "/api/v1/a%2fb", "")), http.StatusBadRequest, "BAD_REQUEST")
	refused(t, send(key.request("PROPFIND", "/api/v1/orders", "")), http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	u.none(t)
}

// TestHTTP2CopiesAtOnce sends copies of one request as streams of one
// connection.
func TestHTTP2CopiesAtOnce(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, servers: "protocols h1 h2c"})
	r := g.newKey(nil).post()
	send := overHTTP2(t, g)
	answers := make([]*response, 64)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = send(r) })
	}
	all.Wait()
	wantMessages(t, "64 copies over HTTP/2", messages(answers), map[string]int{"": 1, replayed: 63})
	u.one(t)
}
