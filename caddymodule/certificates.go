package caddymodule

import (
	"cmp"
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

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// How much the status shows of the certificates.
const (
	maxCertificates     = 100
	maxCertificateNames = 20
)

// certificates reads what Caddy has loaded to serve. Caddy can be asked for the
// certificates of a name, but not for all: the names in files and those that were
// obtained on demand are nowhere else. CertMagic shows its whole cache to a
// selector, if a client asks for a name that no certificate has. So this is a
// selector, and the issuer of a policy that no site uses, because issuers are given
// the configuration that has Caddy's cache.
type certificates struct {
	config   *certmagic.Config
	policies renewals
	found    []certmagic.Certificate
}

// noSuchName is a name that no certificate has (RFC 6761, section 6.4).
const noSuchName = "all-certificates.invalid"

// certificatesOf returns the reader of the certificates of a configuration whose
// apps are provisioned; nil if nothing in it uses TLS, or if they cannot be read.
func certificatesOf(ctx caddy.Context, log *zap.Logger) *certificates {
	app, err := ctx.AppIfConfigured("tls")
	served, ok := app.(*caddytls.TLS)
	if err != nil || !ok {
		return nil
	}
	c := &certificates{policies: renewalsOf(served)}
	policy := caddytls.AutomationPolicy{Issuers: []certmagic.Issuer{c}}
	if err := policy.Provision(served); err != nil {
		log.Warn("certificates cannot be read, so the status shows none", zap.Error(err))
		return nil
	}
	return c
}

// all returns the certificates that are loaded now, in no order.
func (c *certificates) all() []certmagic.Certificate {
	if c == nil || c.config == nil {
		return nil
	}
	reader, config := new(certificates), *c.config
	config.CertSelection, config.OnDemand, config.OnEvent, config.Logger = reader, nil, nil, zap.NewNop()
	if _, err := config.GetCertificateWithContext(context.Background(), &tls.ClientHelloInfo{ServerName: noSuchName}); err != nil {
		return nil
	}
	return slices.DeleteFunc(reader.found, func(c certmagic.Certificate) bool { return c.Leaf == nil })
}

// list returns the certificates that end first, at most maxCertificates, and the
// number of all.
func (c *certificates) list(now time.Time) (first []keyadmin.Certificate, total int) {
	first = []keyadmin.Certificate{}
	for _, found := range c.all() {
		leaf, names := found.Leaf, found.Names
		first = append(first, keyadmin.Certificate{
			Names: slices.Clone(names[:min(len(names), maxCertificateNames)]), Issuer: leaf.Issuer.String(),
			Begins: leaf.NotBefore.UTC(), Expires: leaf.NotAfter.UTC(),
			Overdue: !c.policies.onDemand(&found) && overdue(leaf, now),
		})
	}
	slices.SortFunc(first, func(a, b keyadmin.Certificate) int {
		return cmp.Or(a.Expires.Compare(b.Expires), slices.Compare(a.Names, b.Names))
	})
	return first[:min(len(first), maxCertificates)], len(first)
}

// report sets the gauges of the certificates.
func (c *certificates) report(now time.Time) {
	var first time.Time
	late, count := 0, 0
	for _, found := range c.all() {
		if c.policies.onDemand(&found) {
			continue
		}
		count++
		if end := found.Leaf.NotAfter; count == 1 || end.Before(first) {
			first = end
		}
		if overdue(found.Leaf, now) {
			late++
		}
	}
	if count == 0 {
		certificateEnd.Reset()
		certificatesOverdue.Reset()
		return
	}
	certificateEnd.WithLabelValues().Set(float64(first.Unix()))
	certificatesOverdue.WithLabelValues().Set(float64(late))
}

// SelectCertificate keeps all choices. It chooses one that is empty, so that
// nothing is looked for elsewhere.
func (c *certificates) SelectCertificate(_ *tls.ClientHelloInfo, choices []certmagic.Certificate) (certmagic.Certificate, error) {
	c.found = choices
	return certmagic.Certificate{}, nil
}

// SetConfig receives the configuration with Caddy's cache.
func (c *certificates) SetConfig(config *certmagic.Config) { c.config = config }

// Issue is never called, because no site uses the policy.
func (*certificates) Issue(context.Context, *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	return nil, errors.New("card_gateway: it issues no certificates")
}

// IssuerKey returns the name of an issuer of nothing.
func (*certificates) IssuerKey() string { return "card_gateway" }

// Interface guards
var (
	_ certmagic.Issuer              = (*certificates)(nil)
	_ certmagic.CertificateSelector = (*certificates)(nil)
	_ caddytls.ConfigSetter         = (*certificates)(nil)
)
