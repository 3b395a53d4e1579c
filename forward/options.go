package forward

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// An Issuer is one upstream.
type Issuer struct {
	// Address is "host:port", or "unix/" and the path of a socket. It is the
	// issuer's name in errors and metrics.
	Address string
	// Host is sent with requests that have no Host. Default: the host of Address,
	// with the port unless it is the usual one; "localhost" for a socket.
	Host string
}

// Policy is how an issuer is chosen among those that are not out.
type Policy uint8

const (
	// Least takes, of two random issuers, the one with fewer outstanding
	// requests. It is the default.
	Least Policy = iota
	// RoundRobin takes them in turn.
	RoundRobin
	// First takes the first of the list.
	First
)

// Options configures a [Forwarder]. Durations that are zero get their
// defaults; a negative one is refused.
type Options struct {
	Issuers []Issuer // 1 to 64
	Policy  Policy
	TLS     *TLS // nil: plain TCP

	// DialTimeout is the longest time for a new connection with its TLS handshake,
	// and for the wait until a connection is free. Default 3 s.
	DialTimeout time.Duration
	// AnswerTimeout is how long the issuer may take for the head of its
	// answer, and to take each 256 KiB of a body. Default 30 s.
	AnswerTimeout time.Duration
	// StallTimeout is how long an answer's body may pause. Event streams may
	// pause without end. Default 60 s.
	StallTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. It should be
	// shorter than the issuer's own. Default 45 s.
	IdleTimeout time.Duration
	// MaxConnections is the most connections to each issuer, which callers share by the
	// rule of [share.Pool]. 0: no limit.
	MaxConnections int

	// FailAfter failures within FailFor take an issuer out for FailFor. A
	// failure is a connection that cannot be made, a connection that breaks, or
	// an answer that cannot be read. Any answer ends the count. An answer that is
	// late does not count: one slow operation must not cut off the others, and
	// active checks find an issuer that hangs. When the time is over, one request
	// tries the issuer. If all issuers are out, those whose last failure was not
	// a timeout are still tried.
	// Default 3 in 10 s; FailAfter below 0: never.
	FailAfter int
	FailFor   time.Duration
	Check     *Check // nil: no active checks

	Observer Observer
	Now      func() time.Time // default time.Now
}

// A Check requests Path from each issuer at intervals. An issuer that does not
// answer with the expected status is out until it does.
type Check struct {
	Path    string        // begins with "/"
	Every   time.Duration // default 5 s; at least 1 s
	Timeout time.Duration // for the whole answer; default 3 s
	Status  int           // expected; 0: any of 200 to 299
}

// An Observer receives the data for metrics and logs. Its functions may be nil.
// They are called from many goroutines and must not block.
type Observer struct {
	// Connections adds to the number of open connections of an issuer.
	Connections func(issuer string, delta int)
	// InFlight adds to the number of requests for which an issuer was chosen, and whose
	// answers have not ended.
	InFlight func(issuer string, delta int)
	// Answered receives the status of an answer to a request, or its failure by a fault of
	// the issuer, and how long the issuer took. Checks are left out.
	Answered func(issuer string, status int, failure *Error, took time.Duration)
	// Out adds to the number of forwarders that have an issuer out, and receives how long
	// it was out since the last call. It is out until it answers a request.
	Out func(issuer string, delta int, lasted time.Duration)
	// Problem receives each fault of an issuer once, even if it failed no request.
	Problem func(*Error)
}

// withDefaults returns a copy in which functions that are nil do nothing.
func (o Observer) withDefaults() Observer {
	if o.Connections == nil {
		o.Connections = func(string, int) {}
	}
	if o.InFlight == nil {
		o.InFlight = func(string, int) {}
	}
	if o.Answered == nil {
		o.Answered = func(string, int, *Error, time.Duration) {}
	}
	if o.Out == nil {
		o.Out = func(string, int, time.Duration) {}
	}
	if o.Problem == nil {
		o.Problem = func(*Error) {}
	}
	return o
}

const maxIssuers = 64

// withDefaults returns a copy with the defaults filled in.
func (o Options) withDefaults() Options {
	o.DialTimeout = cmp.Or(o.DialTimeout, 3*time.Second)
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, 30*time.Second)
	o.StallTimeout = cmp.Or(o.StallTimeout, time.Minute)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 45*time.Second)
	o.FailFor = cmp.Or(o.FailFor, 10*time.Second)
	o.FailAfter = cmp.Or(o.FailAfter, 3)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Observer = o.Observer.withDefaults()
	if o.Check != nil {
		check := *o.Check
		check.Every = cmp.Or(check.Every, 5*time.Second)
		check.Timeout = cmp.Or(check.Timeout, 3*time.Second)
		o.Check = &check
	}
	return o
}

// validate returns why the options cannot be used. It is called after
// withDefaults.
func (o *Options) validate() error {
	switch {
	case len(o.Issuers) == 0:
		return errors.New("no issuer is given")
	case len(o.Issuers) > maxIssuers:
		return fmt.Errorf("%d issuers are given; at most %d are possible", len(o.Issuers), maxIssuers)
	case o.Policy > First:
		return fmt.Errorf("policy %d is unknown", o.Policy)
	case o.MaxConnections < 0:
		return errors.New("the maximum of connections must not be negative")
	}
	for _, d := range []time.Duration{o.DialTimeout, o.AnswerTimeout, o.StallTimeout, o.IdleTimeout, o.FailFor} {
		if d < 0 {
			return errors.New("a duration must not be negative")
		}
	}
	return o.Check.validate()
}

func (c *Check) validate() error {
	switch {
	case c == nil:
		return nil
	case !strings.HasPrefix(c.Path, "/") || !isVisible(c.Path):
		return fmt.Errorf("the path of the check, %q, must begin with a slash and hold no blank", c.Path)
	case c.Every < time.Second:
		return errors.New("the checks must be at least a second apart")
	case c.Timeout < 0:
		return errors.New("the timeout of the check must not be negative")
	case c.Status != 0 && (c.Status < 200 || c.Status > 599):
		return fmt.Errorf("the check cannot expect status %d", c.Status)
	default:
		return nil
	}
}

// endpoint splits the address, and completes the host. The usual port, as ":80",
// is not part of a Host header.
func (i *Issuer) endpoint(usual string) (network, address, host string, err error) {
	if path, ok := strings.CutPrefix(i.Address, "unix/"); ok {
		network, address, host = "unix", path, "localhost"
		if path == "" {
			err = errors.New("the socket has no path")
		}
	} else {
		network, address = "tcp", i.Address
		host = strings.TrimSuffix(address, usual)
		_, _, err = net.SplitHostPort(address)
	}
	if i.Host != "" {
		host = i.Host
	}
	if err == nil && !isVisible(host) {
		err = errors.New("the host is empty or holds a byte that a header cannot")
	}
	if err != nil {
		return "", "", "", fmt.Errorf("issuer %q: %w", i.Address, err)
	}
	return network, address, host, nil
}

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
