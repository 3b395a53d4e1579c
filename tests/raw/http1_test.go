package raw

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A place is a gateway that serves with and without TLS, and its issuer.
type place struct {
	*harness.Gateway
	issuer  *harness.Upstream
	key     harness.Credentials
	secured string // address of the site with TLS
	trusted *x509.CertPool
}

// newPlace starts a gateway whose sites serve the protocols.
func newPlace(t testing.TB, protocols string) *place {
	t.Helper()
	issuer := harness.StartUpstream(t)
	return newPlaceBefore(t, protocols, issuer, issuer.Addr)
}

// newPlaceBefore starts a gateway that reaches its issuer at an address.
func newPlaceBefore(t testing.TB, protocols string, issuer *harness.Upstream, address string) *place {
	t.Helper()
	p := &place{issuer: issuer, secured: harness.FreeAddress(t), trusted: x509.NewCertPool()}
	s := harness.Site{
		Upstream: address, Servers: "protocols " + protocols + "\nmax_header_size 64KiB",
		Auth: "max_body 64KiB",
	}
	p.Gateway = harness.NewGateway(t, s)
	cert, key, authority := (*harness.Authority)(nil).Sign(t, "gw.example")
	p.trusted.AddCert(authority.Cert)
	p.WriteFile("cert.pem", string(cert))
	p.WriteFile("key.pem", string(key))
	_, port, _ := net.SplitHostPort(p.secured)
	p.Site.Sites = fmt.Sprintf("https://:%s {\nbind 127.0.0.1\ntls %s %s\nhandle /api/v1/* {\ncard_auth {\n%s\n}\n%s}\nhandle {\ncard_refuse not_found\n}\n}\n",
		port, p.Path("cert.pem"), p.Path("key.pem"), p.Site.Auth, p.Site.ToIssuer())
	p.Start()
	p.key = p.NewKey(nil)
	return p
}

// dialTLS connects to the site with TLS for a protocol.
func (p *place) dialTLS(t *testing.T, protocol string) net.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", p.secured, &tls.Config{
		RootCAs: p.trusted, ServerName: "gw.example", MinVersion: tls.VersionTLS13, NextProtos: []string{protocol},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(harness.Patience))
	return conn
}

// TestHTTP1 sends the cases of http1.txt, with and without TLS.
func TestHTTP1(t *testing.T) {
	t.Parallel()
	for _, secured := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secured], func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "h1 h2 h3")
			for _, c := range readCases(t, "http1.txt") {
				t.Run(c.name, func(t *testing.T) {
					wire := p.Connect(t)
					if secured {
						conn := p.dialTLS(t, "http/1.1")
						wire = &harness.Wire{Conn: conn, In: bufio.NewReader(conn)}
					}
					p.talk(t, wire, &c)
				})
			}
			p.issuer.None(t)
			p.WantFailures(t, p.key, 0)
		})
	}
}

// TestSecondParser sends the cases through a gateway whose issuer is behind a
// haproxy, which must read each forwarded request as the one that was signed, as
// often, and none that it would refuse.
func TestSecondParser(t *testing.T) {
	t.Parallel()
	issuer := harness.StartUpstream(t)
	judge := harness.StartJudge(t, issuer.Addr)
	p := newPlaceBefore(t, "h1", issuer, judge.Addr)
	refused := 0
	for _, c := range readCases(t, "http1.txt") {
		t.Run(c.name, func(t *testing.T) {
			p.talk(t, p.Connect(t), &c)
			if n, last := judge.Refused(t); n > refused {
				t.Errorf("haproxy refuses what the gateway forwarded: %.1000s", last)
				refused = n
			}
		})
	}
	p.issuer.None(t)
}

// talk sends a case and reads the answers, then checks that the next request on
// the connection is answered as itself, or not at all.
func (p *place) talk(t *testing.T, wire *harness.Wire, c *rawCase) {
	defer wire.Close()
	text := c.bytes(t, p.key)
	cut := strings.HasSuffix(text, "{cut}")
	_, _ = io.WriteString(wire, strings.TrimSuffix(text, "{cut}")) // the gateway may have closed in the middle
	if cut {
		_ = wire.CloseWrite()
	}
	var got []string
	accepted := 0
	for want := range strings.FieldsSeq(c.expect) {
		if want == "closed" {
			break
		}
		answer, err := wire.Receive(c.signed.method)
		if errors.Is(err, syscall.ECONNRESET) && want != "200" && strings.HasSuffix(c.expect, "closed") {
			// It refused and closed before it had read everything, so the system
			// threw the answer away.
			got = append(got, want)
			continue
		}
		if err != nil {
			got = append(got, ended(err))
			break
		}
		got = append(got, fmt.Sprint(answer.Status))
		if answer.Status == 200 {
			accepted++
		}
	}
	if strings.HasSuffix(c.expect, "closed") {
		if _, err := wire.In.ReadByte(); err == nil {
			got = append(got, "more")
		} else {
			got = append(got, ended(err))
		}
	} else if !cut {
		p.probe(t, wire)
	}
	if !among(got, c.expect) {
		t.Errorf("line %d: answers are %q, want %q", c.line, got, c.expect)
	}
	wantOnlySigned(t, p.issuer.Took(), accepted, c.signed, next)
}

// ended returns "closed" for an error of a connection that was closed.
func ended(err error) string {
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return "silence"
	}
	return "closed"
}

// probe sends a request that is answered with its own id, unless the gateway has
// closed the connection.
func (p *place) probe(t *testing.T, wire *harness.Wire) {
	t.Helper()
	const id = "probe-0123456789"
	_, _ = io.WriteString(wire, "GET /elsewhere HTTP/1.1\r\nHost: gw.example\r\nX-Request-Id: "+id+"\r\n\r\n")
	answer, err := wire.Receive("GET")
	switch {
	case err != nil && ended(err) == "silence":
		t.Error("the gateway still waits for the request before")
	case err == nil && (answer.Status != 404 || answer.Header.Get("X-Request-Id") != id):
		t.Errorf("another request is answered %s", answer)
	}
}
