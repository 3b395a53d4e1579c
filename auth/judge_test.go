package auth_test

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

func goodKey(t testing.TB) *auth.Key {
	t.Helper()
	scopes, err := auth.ParseScopes([]string{"cards:read"})
	if err != nil {
		t.Fatal(err)
	}
	return &auth.Key{
		ID:         fixtureID,
		Scopes:     scopes,
		AllowedIPs: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
		ExpiresAt:  fixtureNow.Add(time.Hour),
		Secrets:    []*auth.Secret{auth.NewSecret(1, fixtureSecret, time.Time{})},
	}
}

// goodRequest is the published vector V1.
func goodRequest(t testing.TB) *auth.Request {
	t.Helper()
	c, refusal := auth.ParseCredentials(goodHeaders())
	if refusal != nil {
		t.Fatal(refusal)
	}
	return &auth.Request{
		Method: "GET", Target: "/api/v1/orders", Credentials: c,
		Client: netip.MustParseAddr("203.0.113.7"), Scope: "cards:read",
	}
}

func TestJudgeReportsEveryFailingRule(t *testing.T) {
	breaks := map[auth.Rules]func(*auth.Request, *auth.Key){
		auth.RuleEnabled:   func(_ *auth.Request, k *auth.Key) { k.Disabled = true },
		auth.RuleExpiry:    func(_ *auth.Request, k *auth.Key) { k.ExpiresAt = fixtureNow },
		auth.RuleIP:        func(r *auth.Request, _ *auth.Key) { r.Client = netip.MustParseAddr("198.51.100.9") },
		auth.RuleTimestamp: func(r *auth.Request, _ *auth.Key) { r.Credentials.Unix -= 301 },
		auth.RuleSignature: func(r *auth.Request, _ *auth.Key) { r.Credentials.Signature = auth.EmptyBodyHash },
		auth.RuleScope:     func(r *auth.Request, _ *auth.Key) { r.Scope = "cards:write" },
	}
	var rules []auth.Rules
	for rule := range breaks {
		rules = append(rules, rule)
	}
	for subset := range 1 << len(rules) {
		r, k := goodRequest(t), goodKey(t)
		var want auth.Rules
		for i, rule := range rules {
			if subset>>i&1 == 1 {
				breaks[rule](r, k)
				want |= rule
			}
		}
		got := auth.Judge(r, k, fixtureWindow, fixtureNow)
		if got.Failed != want {
			t.Errorf("failed %b, want %b", got.Failed, want)
		}
		if wantVersion := 1; !want.Has(auth.RuleSignature) && got.SecretVersion != wantVersion {
			t.Errorf("secret version %d", got.SecretVersion)
		}
	}
}

func TestUnknownKeyFailsRule2Alone(t *testing.T) {
	if got := auth.Judge(goodRequest(t), nil, fixtureWindow, fixtureNow); got != (auth.Judgement{Failed: auth.RuleKnown}) {
		t.Errorf("got %+v", got)
	}
}

func TestSecretVersionOfTheSignature(t *testing.T) {
	secret := func(version int, text string, ends time.Duration) *auth.Secret {
		if ends == 0 {
			return auth.NewSecret(version, text, time.Time{})
		}
		return auth.NewSecret(version, text, fixtureNow.Add(ends))
	}
	tests := []struct {
		name    string
		secrets []*auth.Secret
		want    int
	}{
		{"the newest", []*auth.Secret{secret(3, fixtureSecret, 0), secret(2, "another", time.Hour)}, 3},
		{"the older", []*auth.Secret{secret(3, "another", 0), secret(2, fixtureSecret, time.Hour)}, 2},
		{"both", []*auth.Secret{secret(3, fixtureSecret, 0), secret(2, fixtureSecret, time.Hour)}, 3},
		{"the older has ended", []*auth.Secret{secret(3, "another", 0), secret(2, fixtureSecret, -time.Nanosecond)}, 0},
		{"all have ended", []*auth.Secret{secret(3, fixtureSecret, -time.Second)}, 0},
		{"none", nil, 0},
	}
	for _, test := range tests {
		key := goodKey(t)
		key.Secrets = test.secrets
		got := auth.Judge(goodRequest(t), key, fixtureWindow, fixtureNow)
		if got.SecretVersion != test.want || got.Failed.Has(auth.RuleSignature) != (test.want == 0) {
			t.Errorf("%s: got %+v, want version %d", test.name, got, test.want)
		}
	}
}

// A secret that has ended only explains a refusal. It never makes a signature
// valid, even if the clock shows a time before its end.
func TestRetiredSecretsExplain(t *testing.T) {
	live := auth.NewSecret(3, "another", time.Time{})
	for _, test := range []struct {
		name             string
		secrets, retired []*auth.Secret
		want             int // version of the retired secret that is found; 0: none
	}{
		{"retired", []*auth.Secret{live}, []*auth.Secret{auth.NewSecret(2, fixtureSecret, fixtureNow.Add(-time.Hour))}, 2},
		{"the older of two", []*auth.Secret{live}, []*auth.Secret{auth.NewSecret(2, "x", fixtureNow), auth.NewSecret(1, fixtureSecret, fixtureNow)}, 1},
		{"by a clock that is ahead", []*auth.Secret{live}, []*auth.Secret{auth.NewSecret(2, fixtureSecret, fixtureNow.Add(time.Hour))}, 2},
		{"without an end", nil, []*auth.Secret{auth.NewSecret(2, fixtureSecret, time.Time{})}, 2},
		{"ended since the record was read", []*auth.Secret{live, auth.NewSecret(2, fixtureSecret, fixtureNow)}, nil, 2},
		{"another", []*auth.Secret{live}, []*auth.Secret{auth.NewSecret(2, "x", fixtureNow)}, 0},
		{"live too", []*auth.Secret{auth.NewSecret(3, fixtureSecret, time.Time{})}, []*auth.Secret{auth.NewSecret(2, fixtureSecret, fixtureNow)}, 0},
	} {
		key := goodKey(t)
		key.Secrets, key.Retired = test.secrets, test.retired
		got := auth.Judge(goodRequest(t), key, fixtureWindow, fixtureNow)
		accepted := test.name == "live too"
		version := 0
		if got.Retired != nil {
			version = got.Retired.Version()
		}
		if version != test.want || got.Failed.Has(auth.RuleSignature) == accepted || (got.SecretVersion > 0) != accepted {
			t.Errorf("%s: %+v, retired version %d", test.name, got, version)
		}
	}
}

// TestJudgeIsConcurrent verifies with one secret from many goroutines.
func TestJudgeIsConcurrent(t *testing.T) {
	key := goodKey(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			good, bad := goodRequest(t), goodRequest(t)
			bad.Target += "?" + strings.Repeat("x", i)
			for range 200 {
				if got := auth.Judge(good, key, fixtureWindow, fixtureNow); got.Failed != 0 {
					t.Errorf("good: failed %b", got.Failed)
				}
				if got := auth.Judge(bad, key, fixtureWindow, fixtureNow); got.Failed != auth.RuleSignature {
					t.Errorf("bad: failed %b", got.Failed)
				}
			}
		})
	}
	wg.Wait()
}
