package request

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// namedSites returns the Caddyfile that docs/deployment.md shows for sites with
// names, with another issuer.
func namedSites(t testing.TB, issuer string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/deployment.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range harness.Blocks(harness.Page{Path: "docs/deployment.md", Text: string(text)}) {
		if b.Language == "caddyfile" && strings.Contains(b.Text, "card_refuse unknown_host") {
			return strings.ReplaceAll(b.Text, "127.0.0.1:9000", issuer)
		}
	}
	t.Fatal("docs/deployment.md shows no sites with names")
	return ""
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// TestUnknownHost sends requests for which an empty 200 means success to hosts
// without a site, over plain HTTP, TLS and HTTP/2: the answer must not be 200.
func TestUnknownHost(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	plain, secure := harness.FreeAddress(t), harness.FreeAddress(t)
	g := harness.StartGateway(t, harness.Site{
		Upstream: u.Addr, Sites: namedSites(t, u.Addr),
		Options: "local_certs\nhttp_port " + portOf(plain) + "\nhttps_port " + portOf(secure),
	})
	key := g.NewKey(nil)
	unfreeze := func(host string) *harness.Request {
		r := key.Request(http.MethodPost, "/api/v1/cards/c1/unfreeze", "")
		r.Headers = append([]string{"Host: " + host}, r.Headers...)
		return r
	}
	ways := map[string]func(*harness.Request) *harness.Response{
		"plain HTTP": func(r *harness.Request) *harness.Response { return overConn(t, dialed(t, plain), r) },
		"TLS":        func(r *harness.Request) *harness.Response { return overConn(t, secured(t, secure, "http/1.1"), r) },
		"HTTP/2":     func(r *harness.Request) *harness.Response { return overSecureHTTP2(t, secure, r) },
	}
	for way, send := range ways {
		before := g.Scrape(t)
		got := send(unfreeze("other.example"))
		harness.WantRefused(t, got, http.StatusMisdirectedRequest, "MISDIRECTED_REQUEST")
		if got.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-Id in %v", way, got.Header)
		}
		u.None(t)
		g.WantCounted(t, before, harness.Samples{harness.RequestSeries("other", "unknown_host"): 1})
		if t.Failed() {
			t.Fatal(way)
		}
	}
	for _, way := range []string{"TLS", "HTTP/2"} {
		harness.WantAccepted(t, ways[way](unfreeze("cards.example.com")))
		u.One(t)
	}
	if got := ways["plain HTTP"](unfreeze("cards.example.com")); got.Status < 300 {
		t.Errorf("without TLS the site answers %s", got)
	}
	u.None(t)
}

func dialed(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", "127.0.0.1:"+portOf(address), harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(harness.Patience))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// secured makes a TLS connection to the named site. The authority of its certificate
// is not trusted, and making the first certificate takes a moment.
func secured(t testing.TB, address, protocol string) net.Conn {
	t.Helper()
	var conn *tls.Conn
	harness.Eventually(t, "the site has a certificate", func() bool {
		conn = tls.Client(dialed(t, address), &tls.Config{
			ServerName: "cards.example.com", InsecureSkipVerify: true, NextProtos: []string{protocol},
		})
		return conn.Handshake() == nil
	})
	return conn
}

// overConn sends one request over HTTP/1.1.
func overConn(t testing.TB, conn net.Conn, r *harness.Request) *harness.Response {
	t.Helper()
	w := &harness.Wire{Conn: conn, In: bufio.NewReader(conn)}
	w.WriteText(t, harness.Sent(r).Head()+r.Body)
	got, err := w.Receive(r.Method)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// overSecureHTTP2 sends one request over HTTP/2, on a new connection that was made
// for the named site.
func overSecureHTTP2(t testing.TB, address string, r *harness.Request) *harness.Response {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			return secured(t, address, "h2"), nil
		},
	}
	defer transport.CloseIdleConnections()
	sent, err := http.NewRequest(r.Method, "https://"+r.Value("Host")+harness.Sent(r).Target, strings.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range r.Headers {
		name, value, _ := strings.Cut(line, ": ")
		sent.Header.Add(name, value)
	}
	answer, err := transport.RoundTrip(sent)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.ProtoMajor != 2 {
		t.Errorf("the answer came over %s", answer.Proto)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &harness.Response{Status: answer.StatusCode, Header: answer.Header, Body: string(body)}
}
