package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/meter"
)

// Certificates reads what Caddy has loaded to serve. Caddy can be asked for the
// certificates of a name, but not for all: the names in files and those that were
// obtained on demand are nowhere else. CertMagic shows its whole cache to a
// selector, if a client asks for a name that no certificate has. So this is a
// selector, and the issuer of a policy that no site uses, because issuers are given
// the configuration that has Caddy's cache.
type Certificates struct {
	config   *certmagic.Config
	policies renewals
	found    []certmagic.Certificate
}

// noSuchName is a name that no certificate has (RFC 6761, section 6.4).
const noSuchName = "all-certificates.invalid"

// CertificatesOf returns the reader of the certificates of a configuration whose
// apps are provisioned; nil if nothing in it uses TLS, or if they cannot be read.
func CertificatesOf(ctx caddy.Context, log *zap.Logger) *Certificates {
	app, err := ctx.AppIfConfigured("tls")
	served, ok := app.(*caddytls.TLS)
	if err != nil || !ok {
		return nil
	}
	c := &Certificates{policies: renewalsOf(served)}
	policy := caddytls.AutomationPolicy{Issuers: []certmagic.Issuer{c}}
	if err := policy.Provision(served); err != nil {
		log.Warn("certificates cannot be read, so no metric shows when they end", zap.Error(err))
		return nil
	}
	return c
}

// all returns the certificates that are loaded now, in no order.
func (c *Certificates) all() []certmagic.Certificate {
	if c == nil || c.config == nil {
		return nil
	}
	reader, config := new(Certificates), *c.config
	config.CertSelection, config.OnDemand, config.OnEvent, config.Logger = reader, nil, nil, zap.NewNop()
	if _, err := config.GetCertificateWithContext(context.Background(), &tls.ClientHelloInfo{ServerName: noSuchName}); err != nil {
		return nil
	}
	return slices.DeleteFunc(reader.found, func(c certmagic.Certificate) bool { return c.Leaf == nil })
}

// Report sets the gauges of the certificates that Caddy serves, and of those that are
// shown to issuers.
func (c *Certificates) Report(now time.Time, shown []*x509.Certificate) {
	var served []*x509.Certificate
	for _, found := range c.all() {
		if !c.policies.onDemand(&found) {
			served = append(served, found.Leaf)
		}
	}
	report("server", served, now)
	report("client", shown, now)
}

// report sets the gauges of the certificates of one use.
func report(use string, all []*x509.Certificate, now time.Time) {
	if len(all) == 0 {
		meter.CertificateEnd.DeleteLabelValues(use)
		meter.CertificatesOverdue.DeleteLabelValues(use)
		return
	}
	first, late := all[0].NotAfter, 0
	for _, leaf := range all {
		if leaf.NotAfter.Before(first) {
			first = leaf.NotAfter
		}
		if Overdue(leaf, now) {
			late++
		}
	}
	meter.CertificateEnd.WithLabelValues(use).Set(float64(first.Unix()))
	meter.CertificatesOverdue.WithLabelValues(use).Set(float64(late))
}

// SelectCertificate keeps all choices. It chooses one that is empty, so that
// nothing is looked for elsewhere.
func (c *Certificates) SelectCertificate(_ *tls.ClientHelloInfo, choices []certmagic.Certificate) (certmagic.Certificate, error) {
	c.found = choices
	return certmagic.Certificate{}, nil
}

// SetConfig receives the configuration with Caddy's cache.
func (c *Certificates) SetConfig(config *certmagic.Config) { c.config = config }

// Issue is never called, because no site uses the policy.
func (*Certificates) Issue(context.Context, *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	return nil, errors.New("card_gateway: it issues no certificates")
}

// IssuerKey returns the name of an issuer of nothing.
func (*Certificates) IssuerKey() string { return "card_gateway" }

// Interface guards
var (
	_ certmagic.Issuer              = (*Certificates)(nil)
	_ certmagic.CertificateSelector = (*Certificates)(nil)
	_ caddytls.ConfigSetter         = (*Certificates)(nil)
)

// A certificate is overdue when less than this part of its life is left, and less
// than this time. Caddy renews its own when a third is left. One from a file may
// live for a year, and its operator needs two weeks.
const (
	overdueShare = 5
	overdueTime  = 14 * 24 * time.Hour
)

// Overdue reports whether a certificate should have been renewed.
func Overdue(leaf *x509.Certificate, now time.Time) bool {
	return leaf.NotAfter.Sub(now) < min(overdueTime, leaf.NotAfter.Sub(leaf.NotBefore)/overdueShare)
}

// renewals are Caddy's automation policies, in their order. A certificate that was
// obtained on demand is renewed by a handshake alone, so one that no client asks for
// any more ends in the cache, as it should.
type renewals []renewal

type renewal struct {
	subjects []string // empty: all names
	onDemand bool
}

// renewalsOf reads the policies of a TLS app whose configuration is provisioned.
func renewalsOf(app *caddytls.TLS) (all renewals) {
	if app.Automation == nil {
		return nil
	}
	for _, policy := range app.Automation.Policies {
		all = append(all, renewal{slices.Clone(policy.Subjects()), policy.OnDemand})
	}
	return all
}

// onDemand reports whether a certificate was obtained on demand. Those of files have
// the names of such a policy too, if it is for all names, but tags, which the
// Caddyfile gives to each.
func (r renewals) onDemand(c *certmagic.Certificate) bool {
	if len(c.Tags) > 0 || len(c.Names) == 0 {
		return false
	}
	for _, policy := range r {
		matches := func(subject string) bool { return certmagic.MatchWildcard(c.Names[0], subject) }
		if len(policy.subjects) == 0 || slices.ContainsFunc(policy.subjects, matches) {
			return policy.onDemand
		}
	}
	return false
}
