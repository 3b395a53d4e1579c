package request

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// An authority signs certificates of the test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// sign returns a certificate for a name, in PEM, with its key. If a is nil, the
// certificate signs itself.
func (a *authority) sign(t *testing.T, name string) (cert, key []byte, made *authority) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: a == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	by := a
	if by == nil {
		by = &authority{template, private}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &private.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		&authority{parsed, private}
}

// TestForwardOverTLS has an issuer that requires a client certificate. The gateway
// presents its own, and accepts only the right certificate of the issuer.
func TestForwardOverTLS(t *testing.T) {
	t.Parallel()
	caPEM, _, ca := (*authority)(nil).sign(t, "CANARY authority")
	otherPEM, _, _ := (*authority)(nil).sign(t, "another authority")
	serverCert, serverKey, _ := ca.sign(t, "issuer.example")
	clientCert, clientKey, _ := ca.sign(t, "gateway.example")
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(ca.cert)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)

	g := harness.NewGateway(t, harness.Site{Upstream: server.Listener.Addr().String()})
	for name, text := range map[string][]byte{"ca": caPEM, "other": otherPEM, "cert": clientCert, "key": clientKey} {
		g.WriteFile(name+".pem", string(text))
	}
	shown := "\nclient_certificate " + g.Path("cert.pem") + " " + g.Path("key.pem")
	tlsBlock := func(lines string) string { return "tls {\n" + lines + "\n}" }
	g.Site.Proxy = "host cards.example\n" + tlsBlock("ca_file "+g.Path("ca.pem")+"\nserver_name issuer.example\nmin tls1.3"+shown)
	g.Start()
	key := g.NewKey(nil)
	got := g.Send(t, key.Get())
	harness.WantAccepted(t, got)
	if got.Body != "cards.example gateway.example" {
		t.Errorf("the issuer saw %q", got.Body)
	}
	for why, block := range map[string]string{
		"is not signed by a known authority":      tlsBlock("ca_file " + g.Path("other.pem") + "\nserver_name issuer.example" + shown),
		"the issuer's certificate is for another": tlsBlock("ca_file " + g.Path("ca.pem") + "\nserver_name elsewhere.example" + shown),
		"the issuer ended TLS":                    tlsBlock("ca_file " + g.Path("ca.pem") + "\nserver_name issuer.example"),
	} {
		s := g.Site
		s.Proxy = block
		g.Reload(s)
		harness.WantRefused(t, g.Send(t, key.Get()), http.StatusBadGateway, "UPSTREAM_ERROR")
		g.Logged("default.log", `"logger":"card_gateway.refusals"`, why)
	}
	harness.Canaries{"name of an authority": "CANARY"}.Search(t, "the log", g.ReadFile("default.log"))
}
