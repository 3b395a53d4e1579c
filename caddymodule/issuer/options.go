package issuer

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/forward"
)

// pool has the forwarders that a configuration uses, by their places. Each is
// closed when none uses it any more.
var pool = caddy.NewUsagePool()

// pooledForwarder is a forwarder in the pool.
type pooledForwarder struct{ *forward.Forwarder }

// Destruct closes the forwarder. Requests in flight are not stopped.
func (p pooledForwarder) Destruct() error {
	p.Close()
	return nil
}

// Provision joins the app, and opens the forwarder.
func (h *Forward) Provision(ctx caddy.Context) error {
	app, err := request.Join(ctx, "card_forward", h)
	if err != nil {
		return err
	}
	h.unjudged = app.Unjudged()
	if err := h.Open(); err != nil {
		return fmt.Errorf("card_forward: %w", err)
	}
	return nil
}

// Forwarders returns a forwarder of its own for each issuer, which reports to nobody. The
// caller closes them.
func (h *Forward) Forwarders() (all []*forward.Forwarder, err error) {
	if err := h.expand(); err != nil {
		return nil, err
	}
	options, err := h.options()
	options.Observer, options.Check = forward.Observer{}, nil
	for _, issuer := range options.Issuers {
		alone := options
		alone.Issuers = []forward.Issuer{issuer}
		f, newErr := forward.New(alone)
		if err = errors.Join(err, newErr); err != nil {
			break
		}
		all = append(all, f)
	}
	return all, err
}

// Open takes the forwarder of the options from the pool, or makes it. Cleanup gives it
// back.
func (h *Forward) Open() error {
	if err := h.Rule.Prepare(); err != nil {
		return err
	}
	if h.Host != clientHost && strings.ContainsAny(h.Host, "{} \t") {
		return fmt.Errorf("host is %q; it must be a name, or %s", h.Host, clientHost)
	}
	if err := h.expand(); err != nil {
		return err
	}
	options, err := h.options()
	if err != nil {
		return err
	}
	key, err := h.place()
	if err != nil {
		return err
	}
	pooled, _, err := pool.LoadOrNew(key, func() (caddy.Destructor, error) {
		f, err := forward.New(options)
		return pooledForwarder{f}, err
	})
	if err != nil {
		return err
	}
	h.poolKey, h.forwarder = key, pooled.(pooledForwarder).Forwarder
	return nil
}

// Cleanup gives the forwarder back.
func (h *Forward) Cleanup() error {
	if h.poolKey == "" {
		return nil
	}
	_, err := pool.Delete(h.poolKey)
	return err
}

// ClientCertificates returns the certificates that new connections show to the issuers of
// the configurations in use.
func ClientCertificates() (all []*x509.Certificate) {
	pool.Range(func(_, pooled any) bool {
		if leaf := pooled.(pooledForwarder).ClientCertificate(); leaf != nil {
			all = append(all, leaf)
		}
		return true
	})
	return all
}

// expand replaces the placeholders of addresses and files.
func (h *Forward) expand() error {
	texts := make([]*string, 0, len(h.Issuers)+3)
	for i := range h.Issuers {
		texts = append(texts, &h.Issuers[i])
	}
	if h.TLS != nil {
		texts = append(texts, &h.TLS.CAFile, &h.TLS.Certificate, &h.TLS.Key)
	}
	return directive.Expand(texts...)
}

// place returns the key of the forwarder in the pool: its options, and a hash of
// the authorities, which are read once.
func (h *Forward) place() (string, error) {
	place, err := json.Marshal(&Forward{
		Issuers: h.Issuers, Policy: h.Policy,
		DialTimeout: h.DialTimeout, AnswerTimeout: h.AnswerTimeout, KeepAlive: h.KeepAlive, MaxConnections: h.MaxConnections,
		TLS: h.TLS, FailFor: h.FailFor, FailAfter: h.FailAfter, Check: h.Check,
	})
	if err != nil || h.TLS == nil || h.TLS.CAFile == "" {
		return string(place), err
	}
	authorities, err := os.ReadFile(h.TLS.CAFile)
	if err != nil {
		return "", fmt.Errorf("reading the authorities: %w", err)
	}
	sum := sha256.Sum256(authorities)
	return string(place) + hex.EncodeToString(sum[:]), nil
}

// options returns the options of the forwarder.
func (h *Forward) options() (forward.Options, error) {
	o := forward.Options{
		DialTimeout: time.Duration(h.DialTimeout), AnswerTimeout: time.Duration(h.AnswerTimeout), IdleTimeout: time.Duration(h.KeepAlive),
		MaxConnections: h.MaxConnections, FailFor: time.Duration(h.FailFor), FailAfter: h.FailAfter,
		Observer: observer(h.Issuers),
	}
	for _, issuer := range h.Issuers {
		if err := checkIssuer(issuer); err != nil {
			return o, err
		}
		o.Issuers = append(o.Issuers, forward.Issuer{Address: issuer})
	}
	var err error
	if o.Policy, err = forwardPolicy(h.Policy); err != nil {
		return o, err
	}
	if h.Check != nil {
		o.Check = &forward.Check{Path: h.Check.Path, Every: time.Duration(h.Check.Every)}
	}
	if h.TLS == nil {
		return o, nil
	}
	o.TLS = &forward.TLS{CAFile: h.TLS.CAFile, ServerName: h.TLS.ServerName, CertificateFile: h.TLS.Certificate, KeyFile: h.TLS.Key}
	o.TLS.MinVersion, err = tlsVersion(h.TLS.Min)
	return o, err
}

// checkIssuer returns an error for a text that is neither host:port nor unix/ and a path.
func checkIssuer(issuer string) error {
	if strings.HasPrefix(issuer, "unix/") {
		return nil
	}
	return directive.HostPort(issuer)
}

func forwardPolicy(name string) (forward.Policy, error) {
	switch name {
	case "", "least":
		return forward.Least, nil
	case "round_robin":
		return forward.RoundRobin, nil
	case "first":
		return forward.First, nil
	default:
		return 0, fmt.Errorf("policy %q: write least, round_robin or first", name)
	}
}

func tlsVersion(name string) (uint16, error) {
	switch name {
	case "", "tls1.2":
		return tls.VersionTLS12, nil
	case "tls1.3":
		return tls.VersionTLS13, nil
	default:
		return 0, errors.New("min " + name + ": write tls1.2 or tls1.3")
	}
}

// UnmarshalCaddyfile reads:
//
//	card_forward <issuer>... {
//	    policy least|round_robin|first
//	    dial_timeout <time span>
//	    answer_timeout <time span>
//	    keepalive <time span>
//	    max_connections <n>
//	    host <name>|{client}
//	    tls {
//	        ca_file <path>
//	        server_name <name>
//	        client_certificate <certificate> <key>
//	        min tls1.2|tls1.3
//	    }
//	    fail_for <time span> after <failures> | never
//	    check <path> [every <time span>]
//	    pass_header <name>...
//	    headers only <name>...
//	}
func (h *Forward) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if h.Issuers = d.RemainingArgs(); len(h.Issuers) == 0 {
		return d.Err("card_forward needs the address of an issuer, as host:port")
	}
	for _, issuer := range h.Issuers {
		if err := checkIssuer(issuer); err != nil && !strings.ContainsAny(issuer, "{}") { // placeholders: Provision checks
			return d.WrapErr(err)
		}
	}
	return directive.Block(d, "card_forward", append([]directive.Option{
		{Name: "policy", Read: h.readPolicy},
		directive.Duration("dial_timeout", &h.DialTimeout),
		directive.Duration("answer_timeout", &h.AnswerTimeout),
		directive.Duration("keepalive", &h.KeepAlive),
		directive.Number("max_connections", 1, &h.MaxConnections),
		directive.Text("host", "a name, or "+clientHost, &h.Host),
		{Name: "tls", Read: h.readTLS},
		{Name: "fail_for", Read: h.readFailFor},
		{Name: "check", Read: h.readCheck},
	}, directive.Headers(&h.Rule)...))
}

func (h *Forward) readPolicy(d *caddyfile.Dispenser) (err error) {
	if h.Policy, err = directive.OneArg(d, "least, round_robin or first"); err != nil {
		return err
	}
	if _, err := forwardPolicy(h.Policy); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (h *Forward) readTLS(d *caddyfile.Dispenser) error {
	if err := directive.NoMore(d); err != nil {
		return err
	}
	h.TLS = new(ForwardTLS)
	return directive.Block(d, "tls", []directive.Option{
		directive.Text("ca_file", "a path", &h.TLS.CAFile),
		directive.Text("server_name", "a name", &h.TLS.ServerName),
		{Name: "client_certificate", Read: func(d *caddyfile.Dispenser) error {
			if !d.Args(&h.TLS.Certificate, &h.TLS.Key) {
				return d.Err("client_certificate needs the paths of the certificate and of its key")
			}
			return directive.NoMore(d)
		}},
		{Name: "min", Read: func(d *caddyfile.Dispenser) (err error) {
			if h.TLS.Min, err = directive.OneArg(d, "tls1.2 or tls1.3"); err != nil {
				return err
			}
			if _, err := tlsVersion(h.TLS.Min); err != nil {
				return d.WrapErr(err)
			}
			return nil
		}},
	})
}

// readFailFor reads `fail_for <time span> after <failures>`, or
// `fail_for never`.
func (h *Forward) readFailFor(d *caddyfile.Dispenser) (err error) {
	const expected = "fail_for needs: a time span, after, and a number of failures; or never"
	words := d.RemainingArgs()
	switch {
	case len(words) == 1 && words[0] == "never":
		h.FailAfter = -1
		return nil
	case len(words) != 3 || words[1] != "after":
		return d.Err(expected)
	}
	if h.FailFor, err = spanOf(d, words[0]); err != nil {
		return err
	}
	h.FailAfter, err = numberFrom1(d, words[2])
	return err
}

// readCheck reads `check <path> [every <time span>]`.
func (h *Forward) readCheck(d *caddyfile.Dispenser) (err error) {
	words := d.RemainingArgs()
	if len(words) != 1 && (len(words) != 3 || words[1] != "every") {
		return d.Err("check needs: a path, and perhaps every and a time span")
	}
	h.Check = &ForwardCheck{Path: words[0]}
	if len(words) == 3 {
		h.Check.Every, err = spanOf(d, words[2])
	}
	return err
}

// numberFrom1 parses a whole number of at least 1.
func numberFrom1(d *caddyfile.Dispenser, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, d.Errf("%q is not a number of at least 1", text)
	}
	return n, nil
}

// spanOf parses a time span above 0.
func spanOf(d *caddyfile.Dispenser, text string) (caddy.Duration, error) {
	span, err := caddy.ParseDuration(text)
	if err != nil || span <= 0 {
		return 0, d.Errf("%q is not a time span; write for example 10s", text)
	}
	return caddy.Duration(span), nil
}

// observer returns what counts for the issuers and logs their problems.
func observer(issuers []string) forward.Observer {
	figures := make(map[string]*meter.Issuer)
	for _, issuer := range issuers {
		figures[issuer] = meter.NewIssuer(issuer)
	}
	return forward.Observer{
		Connections: func(issuer string, delta int) { figures[issuer].Connections.Add(float64(delta)) },
		InFlight:    func(issuer string, delta int) { figures[issuer].InFlight.Add(float64(delta)) },
		Answered: func(issuer string, status int, failure *forward.Error, took time.Duration) {
			figures[issuer].Observe(issuerClass(status, failure), took)
		},
		Out: func(issuer string, delta int, lasted time.Duration) {
			figures[issuer].Out.Add(float64(delta))
			figures[issuer].OutSeconds.Add(lasted.Seconds())
		},
		Problem: logIssuerProblem,
	}
}

// issuerClass returns the class of an answer, or of a failure to give one.
func issuerClass(status int, failure *forward.Error) string {
	switch {
	case failure == nil:
		return meter.IssuerClass(status)
	case failure.Kind == forward.KindTimeout:
		return "timeout"
	default:
		return "error"
	}
}

// issuerLog shortens a flood of problems: of each kind it writes the first lines of every
// second, then one in many.
var issuerLog = request.Sampled(node.Log.Named("card_gateway.issuers"), time.Second, request.RefusalsPerSecond, request.RefusalsThen)

// logIssuerProblem logs a problem of an issuer, with the gateway's own text.
func logIssuerProblem(e *forward.Error) {
	issuerLog.Warn("issuer: "+e.Kind.String(), zap.String("kind", e.Kind.String()),
		zap.String("issuer", e.Issuer), zap.String("detail", e.Text))
}
