package forward

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// secured makes a peer serve each connection over TLS.
func secured(config *tls.Config, serve func(c *peerConn)) func(c *peerConn) {
	return func(c *peerConn) {
		s := tls.Server(c.Conn, config)
		if s.Handshake() != nil {
			return
		}
		serve(&peerConn{Conn: s, p: c.p, n: c.n, br: bufio.NewReader(s)})
	}
}

func withTLS(ca *authority, change func(o *TLS)) func(o *Options) {
	return func(o *Options) {
		o.TLS = &TLS{CAFile: ca.file}
		if change != nil {
			change(o.TLS)
		}
	}
}

// TestTLS sends over TLS, with one connection for all.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{Certificates: []tls.Certificate{ca.server(t, "127.0.0.1", time.Time{})}, MaxVersion: version}
		p := newPeer(t, secured(config, hashed))
		f, seen := start(t, withTLS(ca, nil), p.addr)
		for _, size := range []int{0, 1, joinBelow + 1, alone, alone + 1, 1 << 20} {
			got := fetchOf(t.Context(), f, &Request{Method: "POST", Target: "/", Body: make([]byte, size)})
			if got.err != nil || got.status != 200 {
				t.Fatalf("%d bytes: %d, %v", size, got.status, got.err)
			}
		}
		if p.conns.Load() != 1 || len(seen.kinds()) != 0 {
			t.Errorf("version %x: %d connections, %v", version, p.conns.Load(), seen.kinds())
		}
	}
}

// servedBy serves with a certificate.
func servedBy(c tls.Certificate, change func(*tls.Config)) func(*peerConn) {
	config := &tls.Config{Certificates: []tls.Certificate{c}}
	if change != nil {
		change(config)
	}
	return secured(config, answers(okAnswer))
}

// TestHandshakeFails breaks the handshake in each way. Nothing is sent, and the
// text of the error names the reason without any text from the issuer.
func TestHandshakeFails(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	good := ca.server(t, "127.0.0.1", time.Time{})
	for name, c := range map[string]struct {
		serve func(*peerConn)
		text  string
		tls   func(*TLS)
	}{
		"another authority": {servedBy(other.server(t, "127.0.0.1", time.Time{}), nil), "known authority", nil},
		"another name":      {servedBy(ca.server(t, canary+".example", time.Time{}), nil), "another name", nil},
		"wrong server name": {servedBy(good, nil), "another name", func(o *TLS) { o.ServerName = "issuer.example" }},
		"expired":           {servedBy(ca.server(t, "127.0.0.1", time.Now().Add(-time.Minute)), nil), "expired", nil},
		"too old":           {servedBy(good, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }), "ended TLS: tls: protocol version", nil},
		"1.3 asked, 1.2":    {servedBy(good, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), "ended TLS: tls: protocol version", func(o *TLS) { o.MinVersion = tls.VersionTLS13 }},
		"plain":             {func(c *peerConn) { c.say("HTTP/1.1 400 " + canary + "\r\n\r\n") }, "does not speak TLS", nil},
		"closes":            {func(*peerConn) {}, "failed", nil},
		"closes half-way":   {func(c *peerConn) { c.say("\x16\x03\x03\x00\x50\x02") }, "failed", nil},
		"garbage":           {func(c *peerConn) { c.say("\x16\x03\x03\x00\x10" + canary) }, "failed", nil},
		"silence":           {func(c *peerConn) { c.hears() }, "in time", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, c.serve)
			f, seen := start(t, func(o *Options) {
				withTLS(ca, c.tls)(o)
				if name == "silence" {
					o.DialTimeout = 50 * time.Millisecond
				}
			}, p.addr)
			got := get(f)
			if got.err == nil || got.err.Kind != KindTLS || got.err.Forwarded || got.err.Kind.Status() != 502 {
				t.Fatalf("%+v, want an error of the handshake", got.err)
			}
			if !strings.Contains(got.err.Text, c.text) || strings.Contains(seen.text(), canary) {
				t.Errorf("the texts are %q and %q, want %q in it", got.err.Text, seen.text(), c.text)
			}
			if p.requests.Load() != 0 || !slices.Equal(seen.kinds(), []Kind{KindTLS}) {
				t.Errorf("%d requests arrived; the observer received %v", p.requests.Load(), seen.kinds())
			}
		})
	}
}

// TestTLSBreaks breaks a connection that was secured.
func TestTLSBreaks(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.server(t, "127.0.0.1", time.Time{})}}
	raw := func(c *peerConn) net.Conn { return c.Conn.(*tls.Conn).NetConn() }
	record := "\x17\x03\x03\x00\x20" + canary + canary
	for name, c := range map[string]struct {
		serve  func(c *peerConn)
		kind   Kind
		status int
	}{
		"a wrong record":          {func(c *peerConn) { _, _ = raw(c).Write([]byte(record)) }, KindClosed, 0},
		"half a record":           {func(c *peerConn) { _, _ = raw(c).Write([]byte(record[:20])) }, KindClosed, 0},
		"plain text":              {func(c *peerConn) { _, _ = raw(c).Write([]byte(okAnswer)) }, KindClosed, 0},
		"cut before the end":      {func(c *peerConn) { c.say("HTTP/1.1 200 OK\r\n\r\n" + "ab"); _ = raw(c).Close() }, KindBodyCut, 200},
		"a wrong record in body":  {func(c *peerConn) { c.say("HTTP/1.1 200 OK\r\n\r\n"); _, _ = raw(c).Write([]byte(record)) }, KindBodyCut, 200},
		"until close, with alert": {func(c *peerConn) { c.say("HTTP/1.1 200 OK\r\n\r\n" + "ab"); _ = c.Close() }, 0, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, secured(config, func(pc *peerConn) {
				if pc.request(); pc.n == 1 {
					c.serve(pc)
					return
				}
				pc.say(okAnswer)
				pc.hears()
			}))
			f, seen := start(t, withTLS(ca, nil), p.addr)
			got := get(f)
			if kind := kindOf(got.err); kind != c.kind || got.status != c.status || strings.Contains(seen.text(), canary) {
				t.Errorf("%d, %v, %s; want %d and kind %v", got.status, got.err, seen.text(), c.status, c.kind)
			}
			wantOK(t, get(f))
			if p.requests.Load() != 2 {
				t.Errorf("%d requests arrived, want 2", p.requests.Load())
			}
		})
	}
}

func kindOf(e *Error) Kind {
	if e == nil {
		return 0
	}
	return e.Kind
}

// TestClientCertificate reads the certificate again when its files change, and
// keeps the earlier one while they do not fit together.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	config := &tls.Config{
		Certificates: []tls.Certificate{ca.server(t, "127.0.0.1", time.Time{})},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool,
	}
	p := newPeer(t, secured(config, func(c *peerConn) {
		for c.request() != nil {
			name := c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
			c.say("HTTP/1.1 200 OK\r\nConnection: close\r\nX-Name: " + name + "\r\nContent-Length: 0\r\n\r\n")
		}
	}))
	certFile, keyFile := ca.client(t, "first")
	f, seen := start(t, withTLS(ca, func(o *TLS) { o.CertificateFile, o.KeyFile = certFile, keyFile }), p.addr)
	want := func(name string, told ...Kind) {
		t.Helper()
		got := get(f)
		if got.err != nil || got.header.Get("X-Name") != name || !slices.Equal(seen.kinds(), told) {
			t.Errorf("the issuer saw %q, %v, told %v; want %q, told %v", got.header.Get("X-Name"), got.err, seen.kinds(), name, told)
		}
	}
	want("first")
	firstKey, _ := os.ReadFile(keyFile)
	ca.client(t, "second")
	want("second")
	secondKey, _ := os.ReadFile(keyFile)
	writeFile(t, keyFile, firstKey)
	want("second", KindCertificate)
	want("second", KindCertificate) // a change is reported once
	writeFile(t, keyFile, secondKey)
	want("second", KindCertificate)
	_ = os.Remove(certFile)
	want("second", KindCertificate, KindCertificate)
	ca.client(t, "third")
	want("third", KindCertificate, KindCertificate)
}

// TestNoClientCertificate sends to an issuer that requires one. With TLS 1.3
// the issuer refuses only after the request was written.
func TestNoClientCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for version, want := range map[uint16]Kind{tls.VersionTLS12: KindTLS, tls.VersionTLS13: KindClosed} {
		p := newPeer(t, secured(&tls.Config{
			Certificates: []tls.Certificate{ca.server(t, "127.0.0.1", time.Time{})},
			ClientAuth:   tls.RequireAnyClientCert, MaxVersion: version,
		}, answers(okAnswer)))
		f, _ := start(t, withTLS(ca, nil), p.addr)
		got := get(f)
		if kindOf(got.err) != want || got.err.Forwarded != (want == KindClosed) {
			t.Errorf("version %x: %+v, want kind %v", version, got.err, want)
		}
	}
}

// TestTLSOptions tries options of TLS that cannot work.
func TestTLSOptions(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certFile, keyFile := ca.client(t, "a")
	for name, o := range map[string]*TLS{
		"no such authority":     {CAFile: ca.dir + "/none"},
		"authority of no PEM":   {CAFile: keyFile},
		"certificate alone":     {CertificateFile: certFile},
		"key alone":             {KeyFile: keyFile},
		"no such certificate":   {CertificateFile: ca.dir + "/none", KeyFile: keyFile},
		"no such key":           {CertificateFile: certFile, KeyFile: ca.dir + "/none"},
		"not of one another":    {CertificateFile: ca.file, KeyFile: keyFile},
		"minimum version of 11": {MinVersion: tls.VersionTLS11},
	} {
		if _, err := New(Options{Issuers: []Issuer{{Address: "a:1"}}, TLS: o}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
