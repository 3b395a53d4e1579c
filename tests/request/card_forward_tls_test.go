package request

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestForwardOverTLS has an issuer that requires a client certificate. The gateway
// presents its own, and accepts only the right certificate of the issuer.
func TestForwardOverTLS(t *testing.T) {
	t.Parallel()
	caPEM, _, ca := (*harness.Authority)(nil).Sign(t, "CANARY authority")
	otherPEM, _, _ := (*harness.Authority)(nil).Sign(t, "another authority")
	serverCert, serverKey, _ := ca.Sign(t, "issuer.example")
	clientCert, clientKey, _ := ca.Sign(t, "gateway.example")
	pair, err := tls.X509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(ca.Cert)
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
