package caddymodule

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/caddyserver/certmagic"
)

// A certificate is overdue when less than this part of its life is left, and less
// than this time. Caddy renews its own when a third is left. One from a file may
// live for a year, and its operator needs two weeks.
const (
	overdueShare = 5
	overdueTime  = 14 * 24 * time.Hour
)

// overdue reports whether a certificate should have been renewed.
func overdue(leaf *x509.Certificate, now time.Time) bool {
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
