package node

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"pgregory.net/rapid"
)

// TestOverdue has the lives of certificates as they are issued, and the times left at
// which each becomes overdue.
func TestOverdue(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		life, left time.Duration
		want       bool
	}{
		{12 * time.Hour, 4 * time.Hour, false}, // the internal issuer's, when Caddy begins to renew it
		{12 * time.Hour, 3 * time.Hour, false},
		{12 * time.Hour, 2 * time.Hour, true},
		{6 * day, 2 * day, false}, {6 * day, day, true},
		{90 * day, 30 * day, false}, {90 * day, 15 * day, false}, {90 * day, 13 * day, true},
		{365 * day, 60 * day, false}, {365 * day, 15 * day, false}, {365 * day, 13 * day, true},
		{365 * day, 0, true}, {365 * day, -day, true},
		{200 * 365 * day, 15 * day, false}, {200 * 365 * day, 13 * day, true},
	} {
		leaf := &x509.Certificate{NotAfter: now.Add(c.left), NotBefore: now.Add(c.left).Add(-c.life)}
		if got := Overdue(leaf, now); got != c.want {
			t.Errorf("of %v with %v left: %v, want %v", c.life, c.left, got, c.want)
		}
	}
}

// TestOverdueIsAfterRenewal: for a certificate of any life, what is overdue is past
// the time at which Caddy renews it, has less than 14 days left, and stays overdue.
// What has ended is overdue.
func TestOverdueIsAfterRenewal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		life := time.Duration(rapid.Int64Range(int64(time.Minute), int64(10*365*24*time.Hour)).Draw(t, "life"))
		leaf := &x509.Certificate{NotBefore: time.Unix(1_800_000_000, 0)}
		leaf.NotAfter = leaf.NotBefore.Add(life)
		now := leaf.NotBefore.Add(time.Duration(rapid.Int64Range(0, 2*int64(life)).Draw(t, "age")))
		left := leaf.NotAfter.Sub(now)
		late := Overdue(leaf, now)
		renewed := left < time.Duration(float64(life)*certmagic.DefaultRenewalWindowRatio)
		switch {
		case left <= 0 && !late:
			t.Error("it has ended, and is not overdue")
		case late && (!renewed || left >= 14*24*time.Hour):
			t.Errorf("it is overdue with %v of %v left", left, life)
		case late && !Overdue(leaf, now.Add(time.Second)):
			t.Error("it is overdue no more, a second later")
		}
	})
}

// TestOnDemand: the first policy for a name decides, as in Caddy, and a certificate
// with tags is from a file.
func TestOnDemand(t *testing.T) {
	t.Parallel()
	named := func(name string, tags ...string) *certmagic.Certificate {
		return &certmagic.Certificate{Names: []string{name}, Tags: tags}
	}
	mixed := renewals{{[]string{"kept.example", "api.demand.example"}, false}, {[]string{"*.demand.example"}, true}, {nil, false}}
	everything := renewals{{[]string{"kept.example"}, false}, {nil, true}}
	for i, c := range []struct {
		policies    renewals
		certificate *certmagic.Certificate
		want        bool
	}{
		{nil, named("kept.example"), false},
		{mixed, named("kept.example"), false},
		{mixed, named("api.demand.example"), false},
		{mixed, named("other.demand.example"), true},
		{mixed, named("a.other.demand.example"), false},
		{mixed, named("other.demand.example", "cert0"), false},
		{everything, named("kept.example"), false},
		{everything, named("other.example"), true},
		{everything, named("other.example", "cert0"), false},
		{everything, new(certmagic.Certificate), false},
	} {
		if got := c.policies.onDemand(c.certificate); got != c.want {
			t.Errorf("case %d: %v, want %v", i, got, c.want)
		}
	}
}
