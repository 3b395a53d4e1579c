package forward

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An authority signs certificates for a test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	ca := &authority{dir: t.TempDir()}
	ca.file = filepath.Join(ca.dir, "ca.pem")
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	certPEM, keyPEM := ca.sign(t, template)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	ca.cert, ca.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	writeFile(t, ca.file, certPEM)
	return ca
}

// sign returns a certificate and its key. An authority without a certificate
// makes its own.
func (ca *authority) sign(t testing.TB, template *x509.Certificate) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62))
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, _ := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func (ca *authority) server(t testing.TB, name string, until time.Time) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{DNSNames: []string{name}, NotAfter: until, Subject: pkix.Name{CommonName: canary}}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	pair, err := tls.X509KeyPair(ca.sign(t, template))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// client writes a client certificate of the name into two files.
func (ca *authority) client(t testing.TB, name string) (certFile, keyFile string) {
	t.Helper()
	certPEM, keyPEM := ca.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	certFile, keyFile = filepath.Join(ca.dir, "client.pem"), filepath.Join(ca.dir, "client.key")
	writeFile(t, certFile, certPEM)
	writeFile(t, keyFile, keyPEM)
	return certFile, keyFile
}

func writeFile(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
