package tests

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// namedSites returns the Caddyfile that docs/deployment.md shows for sites with
// names, with another issuer.
func namedSites(t testing.TB, issuer string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/deployment.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks(page{"docs/deployment.md", string(text)}) {
		if b.language == "caddyfile" && strings.Contains(b.text, "card_refuse unknown_host") {
			return strings.ReplaceAll(b.text, "127.0.0.1:9000", issuer)
		}
	}
	t.Fatal("docs/deployment.md shows no sites with names")
	return ""
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// TestUnknownHost sends what is successful as an empty 200 to hosts that no
// site has, over plain HTTP, TLS and HTTP/2: nobody has unfrozen the card.
func TestUnknownHost(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	plain, secure := freeAddress(t), freeAddress(t)
	g := startGateway(t, site{
		upstream: u.addr, sites: namedSites(t, u.addr),
		options: "local_certs\nskip_install_trust\nhttp_port " + portOf(plain) + "\nhttps_port " + portOf(secure),
	})
	key := g.newKey(nil)
	unfreeze := func(host string) *request {
		r := key.request(http.MethodPost, "/api/v1/cards/c1/unfreeze", "")
		r.headers = append([]string{"Host: " + host}, r.headers...)
		return r
	}
	ways := map[string]func(*request) *response{
		"plain HTTP": func(r *request) *response { return overConn(t, dialed(t, plain), r) },
		"TLS":        func(r *request) *response { return overConn(t, secured(t, secure, "http/1.1"), r) },
		"HTTP/2":     func(r *request) *response { return overSecureHTTP2(t, secure, r) },
	}
	for way, send := range ways {
		before := g.scrape(t)
		got := send(unfreeze("other.example"))
		refused(t, got, http.StatusMisdirectedRequest, "MISDIRECTED_REQUEST")
		if got.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no X-Request-Id in %v", way, got.header)
		}
		u.none(t)
		g.wantCounted(t, before, samples{requestSeries("other", "unknown_host"): 1})
		if t.Failed() {
			t.Fatal(way)
		}
	}
	for _, way := range []string{"TLS", "HTTP/2"} {
		accepted(t, ways[way](unfreeze("cards.example.com")))
		u.one(t)
	}
	if got := ways["plain HTTP"](unfreeze("cards.example.com")); got.status < 300 {
		t.Errorf("without TLS the site answers %s", got)
	}
	u.none(t)
}

func dialed(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", "127.0.0.1:"+portOf(address), patience)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// secured makes a TLS connection to the named site. Its certificate is of an
// authority that nobody knows, and the first one takes a moment to be made.
func secured(t testing.TB, address, protocol string) net.Conn {
	t.Helper()
	var conn *tls.Conn
	eventually(t, "the site has a certificate", func() bool {
		conn = tls.Client(dialed(t, address), &tls.Config{
			ServerName: "cards.example.com", InsecureSkipVerify: true, NextProtos: []string{protocol},
		})
		return conn.Handshake() == nil
	})
	return conn
}

// overConn sends one request over HTTP/1.1.
func overConn(t testing.TB, conn net.Conn, r *request) *response {
	t.Helper()
	w := &wire{conn, bufio.NewReader(conn)}
	w.write(t, r.head()+r.body)
	got, err := w.receive(r.method)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// overSecureHTTP2 sends one request over HTTP/2, on a connection of its own
// that was made for the named site.
func overSecureHTTP2(t testing.TB, address string, r *request) *response {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols,
		DialTLS:   func(string, string) (net.Conn, error) { return secured(t, address, "h2"), nil },
	}
	defer transport.CloseIdleConnections()
	sent, err := http.NewRequest(r.method, "https://"+r.value("Host")+r.target, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range r.headers {
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
	return &response{status: answer.StatusCode, header: answer.Header, body: readAll(t, answer.Body)}
}
