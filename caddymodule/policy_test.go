package caddymodule

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/caddymodule/settings"
	"github.com/card-gateway/card-gateway/caddymodule/stores"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// sharingBackend is a backend whose gateways compare their policies.
type sharingBackend struct {
	store.Backend
	shared []store.Policy
}

func (b *sharingBackend) SharePolicy(p store.Policy) { b.shared = append(b.shared, p) }

// Every option that must be the same on all gateways is in the policy, and the
// same configuration in other words is the same policy.
func TestPolicyHoldsWhatMustBeAlike(t *testing.T) {
	policyOf := func(c *settings.Config) store.Policy {
		t.Helper()
		r, err := settings.New(c)
		if err != nil {
			t.Fatal(err)
		}
		backend := new(sharingBackend)
		(&state{pooled: &stores.Pooled{Backend: backend}}).sharePolicy(r)
		if len(backend.shared) != 1 {
			t.Fatalf("the policy was shared %d times", len(backend.shared))
		}
		return backend.shared[0]
	}
	differ := func(a, b store.Policy) (names []string) {
		for name := range a {
			if a[name] != b[name] {
				names = append(names, name)
			}
		}
		for name := range b {
			if _, both := a[name]; !both {
				names = append(names, name)
			}
		}
		return names
	}
	second := caddy.Duration(time.Second)
	plain := policyOf(new(settings.Config))
	for name, app := range map[string]*settings.Config{
		"window":               {Window: caddy.Duration(time.Minute)},
		"replay_floor_ahead":   {ReplayFloorAhead: &second},
		"lock_after":           {LockAfter: 7},
		"lock_duration":        {LockDuration: second},
		"lock_counts nonce":    {LockCounts: []string{"nonce"}},
		"limit default":        {Limits: limits("default")},
		"limit total":          {Limits: limits("total")},
		"limit get_card":       {Limits: limits("get_card")},
		"operation freeze_x":   {Operations: []settings.OperationConfig{{Name: "freeze_x", Method: "POST", Path: "/api/v1/x/{id}", Scope: "cards:write"}}},
		"operation issue_card": {Operations: []settings.OperationConfig{{Name: "issue_card", Method: "POST", Path: "/api/v1/x", Scope: "cards:write"}}},
	} {
		if got := differ(plain, policyOf(app)); len(got) != 1 || got[0] != name {
			t.Errorf("%s: the policies differ in %q", name, got)
		}
	}
	same := &settings.Config{Window: caddy.Duration(5 * time.Minute), LockAfter: 50, BodyBudget: 1 << 30}
	if got := differ(plain, policyOf(same)); got != nil {
		t.Errorf("the defaults written out differ in %q", got)
	}
}

// limits returns a limit of seven a minute by its name.
func limits(name string) map[string]settings.Limit {
	return map[string]settings.Limit{name: {Limit: ratelimit.Limit{Count: 7, Period: time.Minute, Burst: 7}}}
}
