package request

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// overHTTP2 sends a request over HTTP/2 without TLS.
func overHTTP2(t testing.TB, g *harness.Gateway) func(*harness.Request) *harness.Response {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return func(r *harness.Request) *harness.Response {
		t.Helper()
		path, query, _ := strings.Cut(harness.Sent(r).Target, "?")
		sent := &http.Request{
			Method: r.Method, URL: &url.URL{Scheme: "http", Host: g.Addr, Opaque: path, RawQuery: query},
			Header: make(http.Header), Body: io.NopCloser(strings.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
		}
		for _, line := range r.Headers {
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
			t.Errorf("%s %s: %v", r.Method, r.Target, err)
			return &harness.Response{Header: make(http.Header)}
		}
		defer answer.Body.Close()
		if answer.ProtoMajor != 2 {
			t.Errorf("the answer came over %s", answer.Proto)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return &harness.Response{Status: answer.StatusCode, Header: answer.Header, Body: string(body)}
	}
}

// TestHTTP2 sends signed requests over HTTP/2, where a request has no line and
// header names are in lower case.
func TestHTTP2(t *testing.T) { harness.EachTerminal(t, testHTTP2) }

func testHTTP2(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Servers: "protocols h1 h2c"})
	key := g.NewKey(nil)
	send := overHTTP2(t, g)
	for _, r := range []*harness.Request{
		key.Get(),
		key.Post(),
		key.Request("GET", "/api/v1/%6frders/caf%c3%a9?next=%2fhome%3fa%3d1&q=a+b&&t[]=~", ""),
		key.Request("DELETE", "/api/v1/orders/1", ""),
		key.Request("POST", "/api/v1/orders", strings.Repeat("x", 500_000)),
		key.Post().Add("Te", "trailers").Add("X-Gateway-Tenant", "evil").Add("X_gateway_tenant", "evil"),
		key.Post().Add("Trailer", "X-Smuggled"),
	} {
		harness.WantAccepted(t, send(r))
		got := u.One(t)
		if got.Line != r.Method+" "+r.Target+" HTTP/1.1" || got.Framed != r.Body {
			t.Errorf("the upstream received\n%.500s", got.Raw())
		}
		wantHeaders(t, got, map[string]string{"X-Gateway-Tenant": "acme"})
		cleanOf(t, got)
	}
	harness.WantUnauthorized(t, send(key.Get().Forge()), harness.WrongSignature)
	harness.WantUnauthorized(t, send(key.Get().Drop("X-Nonce")), harness.MissingHeaders)
	harness.WantUnauthorized(t, send(key.Get().Add("x-nonce", "second")), harness.MissingHeaders)
	harness.WantRefused(t, send(key.Request("GET", "/api/v1/a%2fb", "")), http.StatusBadRequest, "BAD_REQUEST")
	harness.WantRefused(t, send(key.Request("PROPFIND", "/api/v1/orders", "")), http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	u.None(t)
}

// TestHTTP2CopiesAtOnce sends copies of one request as streams of one
// connection.
func TestHTTP2CopiesAtOnce(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Servers: "protocols h1 h2c"})
	r := g.NewKey(nil).Post()
	send := overHTTP2(t, g)
	answers := make([]*harness.Response, 64)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = send(r) })
	}
	all.Wait()
	wantMessages(t, "64 copies over HTTP/2", harness.Messages(answers), map[string]int{"": 1, harness.Replayed: 63})
	u.One(t)
}
