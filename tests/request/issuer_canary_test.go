package request

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

const issuerCard = "4000 0012 3456 7899"

// TestIssuersBytesAreInNoLog has an issuer that sends a card number, and a text
// without any known form, in places where libraries quote bytes that they
// cannot read. All logs are at the level debug.
func TestIssuersBytesAreInNoLog(t *testing.T) { harness.EachTerminal(t, testIssuersBytesAreInNoLog) }

func testIssuersBytesAreInNoLog(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	c := make(harness.Canaries)
	c.Add("card number", issuerCard)
	send := func() {
		if _, err := g.Try(key.Get()); err != nil {
			t.Logf("an answer was cut: %v", err)
		}
	}
	for what, reply := range map[string]string{
		"header line without a colon":  "200 OK\r\n%s\r\n\r\n",
		"name of a header":             "200 OK\r\nX %s: 1\r\n\r\n",
		"value of a header":            "200 OK\r\nX-Card: %s\x01\r\nContent-Length: 0\r\n\r\n",
		"length":                       "200 OK\r\nContent-Length: %s\r\n\r\n",
		"coding":                       "200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
		"status":                       "%s\r\n\r\n",
		"size of a chunk":              "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
		"trailer":                      "200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Card\r\n\r\n2\r\n{}\r\n0\r\nX-Card: %s\r\n\r\n",
		"trailer without a colon":      "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n%s\r\n\r\n",
		"name of a trailer":            "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX %s: 1\r\n\r\n",
		"trailer that must not be one": "200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: %s\r\n\r\n",
	} {
		canary := c.Add(what, "CANARY"+strings.ReplaceAll(what, " ", ""))
		for _, text := range []string{canary, issuerCard} {
			u.Replies(harness.Reply{Raw: "HTTP/1.1 " + strings.ReplaceAll(reply, "%s", text), HangUp: true})
			send()
		}
	}
	u.Replies(harness.Answer(http.StatusOK, "{}"))
	for _, text := range []string{"HTTP/1.1 200 OK\r\nX-Card: " + issuerCard + "\r\n\r\n", c.Add("unasked bytes", "CANARYunasked") + issuerCard, issuerCard} {
		send()
		u.Unasked(text)
		send()
	}
	if terminal == harness.ReverseProxy {
		const unasked = "the upstream sent bytes on an idle connection without being asked"
		harness.Eventually(t, "the log speaks of bytes that nobody asked for", func() bool {
			send() // it may find a connection with unread bytes
			u.Unasked(issuerCard)
			return strings.Contains(g.ReadFile("default.log"), unasked)
		})
		g.Logged("default.log", `"msg":"upstream roundtrip"`, `"error":"`)
	} else {
		g.Logged("default.log", `"logger":"card_gateway.issuers"`, `"kind":"unasked"`)
		g.Logged("default.log", `"logger":"card_gateway.issuers"`, `"kind":"malformed"`)
	}
	g.Stop()
	searchLogs(t, g, c)
}

// searchLogs looks for the canaries in all logs of a gateway.
func searchLogs(t *testing.T, g *harness.Gateway, c harness.Canaries) {
	t.Helper()
	for _, name := range []string{"default.log", "access.log", "stderr"} {
		c.Search(t, name, g.ReadFile(name))
	}
}

// TestIssuersTLSIsInNoLog has issuers with certificates that are refused: the
// errors of crypto/tls and crypto/x509 quote them.
func TestIssuersTLSIsInNoLog(t *testing.T) { harness.EachTerminal(t, testIssuersTLSIsInNoLog) }

func testIssuersTLSIsInNoLog(t *testing.T, terminal string) {
	c := make(harness.Canaries)
	name := c.Add("name in a certificate", "canaryname.example")
	caPEM, _, ca := (*harness.Authority)(nil).Sign(t, c.Add("name of an authority", "CANARY authority"))
	signed, signedKey, _ := ca.Sign(t, name)
	alone, aloneKey, _ := (*harness.Authority)(nil).Sign(t, name)
	g := harness.NewGateway(t, harness.Site{Terminal: terminal})
	g.WriteFile("ca.pem", string(caPEM))
	block := "tls {\nca_file " + g.Path("ca.pem") + "\nserver_name issuer.example\n}"
	if terminal == harness.ReverseProxy {
		block = "transport http {\ntls\ntls_trust_pool file " + g.Path("ca.pem") + "\ntls_server_name issuer.example\n}"
	}
	g.Site.Proxy = block
	g.Site.Upstream = tlsIssuer(t, signed, signedKey)
	g.Start()
	key := g.NewKey(nil)
	for _, issuer := range []string{g.Site.Upstream, tlsIssuer(t, alone, aloneKey), plainIssuer(t, c.Add("plain text", "CANARYplain")+issuerCard), plainIssuer(t, issuerCard)} {
		s := g.Site
		s.Upstream = issuer
		g.Reload(s)
		harness.WantRefused(t, g.Send(t, key.Get()), http.StatusBadGateway, "UPSTREAM_ERROR")
	}
	g.Logged("default.log", `"logger":"card_gateway.refusals"`, "certificate is for another")
	c.Add("card number", issuerCard)
	g.Stop()
	searchLogs(t, g, c)
}

// tlsIssuer answers over TLS with a certificate, and returns its address.
func tlsIssuer(t *testing.T, cert, key []byte) string {
	t.Helper()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// plainIssuer sends a text to whoever connects, and returns its address.
func plainIssuer(t *testing.T, text string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}
