package forward

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
)

// TLS is how connections to the issuers are secured.
type TLS struct {
	// CAFile holds the authorities, in PEM, that may sign an issuer's
	// certificate. Empty: those of the system.
	CAFile string
	// ServerName is the name that the certificate must have. Empty: the host
	// of the issuer's address.
	ServerName string
	// CertificateFile and KeyFile are the client certificate, in PEM; both or
	// neither. They are read again for each new connection.
	CertificateFile, KeyFile string
	// MinVersion is tls.VersionTLS12, the default, or tls.VersionTLS13.
	MinVersion uint16
}

// config returns the configuration of all connections, without the server name.
// The problem function receives later problems.
func (t *TLS) config(problem func(text string)) (*tls.Config, error) {
	config := &tls.Config{MinVersion: t.MinVersion, NextProtos: []string{"http/1.1"}}
	switch t.MinVersion {
	case 0:
		config.MinVersion = tls.VersionTLS12
	case tls.VersionTLS12, tls.VersionTLS13:
	default:
		return nil, errors.New("the minimum version of TLS must be 1.2 or 1.3")
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", t.CAFile)
		}
	}
	if (t.CertificateFile == "") != (t.KeyFile == "") {
		return nil, errors.New("a client certificate needs its key, and a key its certificate")
	}
	if t.CertificateFile != "" {
		pair := &keyPair{certFile: t.CertificateFile, keyFile: t.KeyFile, problem: problem}
		if err := pair.load(); err != nil {
			return nil, fmt.Errorf("loading the client certificate: %w", err)
		}
		config.GetClientCertificate = pair.get
	}
	return config, nil
}

// A keyPair is a client certificate that follows its files.
type keyPair struct {
	certFile, keyFile string
	problem           func(text string)

	mu        sync.Mutex
	cert, key []byte // as last read, even if they did not match
	current   *tls.Certificate
}

// get returns the certificate for a handshake. If the files have changed and
// cannot be used, for instance because one is not yet written, it returns the
// earlier certificate.
func (p *keyPair) get(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		p.problem("the client certificate could not be loaded again; the earlier one stays in use")
	}
	return p.current, nil
}

// load reads the files and parses them if they have changed. It returns an error
// once for each change that cannot be used.
func (p *keyPair) load() error {
	cert, err := os.ReadFile(p.certFile)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(p.keyFile)
	if err != nil {
		return err
	}
	if bytes.Equal(cert, p.cert) && bytes.Equal(key, p.key) {
		return nil
	}
	p.cert, p.key = cert, key
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	p.current = &pair
	return nil
}
