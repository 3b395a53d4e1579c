package request

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// dialHTTP3 opens a connection to the site gw.example.
func dialHTTP3(t *testing.T, address string, authority *x509.Certificate) *http3.ClientConn {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AddCert(authority)
	conn, err := quic.DialAddr(t.Context(), address, &tls.Config{
		RootCAs: trusted, ServerName: "gw.example", NextProtos: []string{http3.NextProtoH3}, MinVersion: tls.VersionTLS13,
	}, new(quic.Config))
	if err != nil {
		t.Fatal(err)
	}
	client := new(http3.Transport).NewClientConn(conn)
	t.Cleanup(func() { _ = client.CloseWithError(0, "") })
	return client
}

// gatewayOverHTTP3 starts a gateway with a second site, gw.example over TLS, and
// connects to that.
func gatewayOverHTTP3(t *testing.T, s harness.Site) (*harness.Gateway, *http3.ClientConn) {
	t.Helper()
	cert, key, authority := (*harness.Authority)(nil).Sign(t, "gw.example")
	g := harness.NewGateway(t, s)
	g.WriteFile("cert.pem", string(cert))
	g.WriteFile("key.pem", string(key))
	address := harness.FreeAddress(t)
	g.Site.Sites = fmt.Sprintf("https://gw.example:%s {\nbind 127.0.0.1\ntls %s %s\ncard_auth\n%s}\n",
		portOf(address), g.Path("cert.pem"), g.Path("key.pem"), g.Site.ToIssuer())
	g.Start()
	return g, dialHTTP3(t, address, authority.Cert)
}

// overHTTP3 sends a request over HTTP/3. Its Content-Length may differ from the
// length of the body.
func overHTTP3(t *testing.T, c *http3.ClientConn, r *harness.Request, length int) (*harness.Response, error) {
	t.Helper()
	stream, err := c.OpenRequestStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent, err := http.NewRequest(r.Method, "https://gw.example"+harness.Sent(r).Target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range r.Headers {
		name, value, _ := strings.Cut(line, ": ")
		sent.Header.Set(name, value)
	}
	sent.ContentLength = int64(length)
	if err := stream.SendRequestHeader(sent); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stream, r.Body); err != nil {
		t.Fatal(err)
	}
	_ = stream.Close() // nothing more is sent; the answer can be read
	answer, err := stream.ReadResponse()
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	return &harness.Response{Status: answer.StatusCode, Header: answer.Header, Body: string(body)}, err
}

// TestHTTP3Length sends bodies over HTTP/3, where nothing forces the body to
// have its Content-Length as in the other versions.
func TestHTTP3Length(t *testing.T) { harness.EachTerminal(t, testHTTP3Length) }

func testHTTP3Length(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g, client := gatewayOverHTTP3(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	credentials := g.NewKey(nil)
	accepted := func(r *harness.Request) {
		t.Helper()
		answer, err := overHTTP3(t, client, r, len(r.Body))
		if err != nil {
			t.Fatal(err)
		}
		harness.WantAccepted(t, answer)
		if got := u.One(t); got.Body != r.Body {
			t.Errorf("the issuer received %q", got.Body)
		}
	}
	for _, missing := range []int{1, 1000, 100_000} {
		r := credentials.Post()
		answer, err := overHTTP3(t, client, r, len(r.Body)+missing)
		if err != nil {
			t.Fatal(err)
		}
		harness.WantRefused(t, answer, http.StatusBadRequest, "BAD_REQUEST")
		u.None(t)
		accepted(r) // its nonce is not spent
	}
	// A longer body ends the stream: the HTTP/3 server resets it.
	r := credentials.Post()
	if answer, err := overHTTP3(t, client, r, len(r.Body)-1); err == nil && answer.Status != http.StatusBadRequest {
		t.Errorf("a body longer than its Content-Length is answered %s", answer)
	}
	u.None(t)
	accepted(r)
	g.WantFailures(t, credentials, 0)
}
