package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// An Authority signs certificates of the test.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Sign returns a certificate for a name, in PEM, with its key. Without an
// authority it is signed by itself.
func (a *Authority) Sign(t testing.TB, name string) (cert, key []byte, made *Authority) {
	t.Helper()
	return a.SignFor(t, name, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

// SignFor is Sign for a certificate that begins and ends at other times.
func (a *Authority) SignFor(t testing.TB, name string, begins, ends time.Time) (cert, key []byte, made *Authority) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: begins, NotAfter: ends,
		IsCA: a == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	by := a
	if by == nil {
		by = &Authority{template, private}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.Cert, &private.PublicKey, by.key)
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
		&Authority{parsed, private}
}
