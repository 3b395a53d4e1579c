package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

func warningsOf(s *Store) string { return fmt.Sprint(s.Status(ctx).Details.Warnings) }

// exchange does the next round of the watch.
func exchange(t testing.TB, stores ...*Store) {
	t.Helper()
	for _, s := range stores {
		if err := s.policies.exchange(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// Two gateways with different policies both warn of each difference. They stop
// when they agree, or when the other gateway has ended or has not reported for
// a while.
func TestPolicies(t *testing.T) {
	opt := single(t)
	a, b := pair(t, opt)
	late, err := New(patient(opt))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	policy := store.Policy{"window": "5m0s", "lock_after": "50", "limit total": "100/1m"}
	a.SharePolicy(policy)
	b.SharePolicy(store.Policy{"window": "1m0s", "lock_after": "50"})
	exchange(t, a, b, a)
	for _, tt := range []struct {
		s    *Store
		says []string
	}{
		{a, []string{b.policies.node + " has window 1m0s, this gateway has 5m0s", "has limit total none, this gateway has 100/1m"}},
		{b, []string{a.policies.node + " has window 5m0s, this gateway has 1m0s", "has limit total 100/1m, this gateway has none"}},
	} {
		for _, says := range tt.says {
			if got := warningsOf(tt.s); !strings.Contains(got, says) || strings.Contains(got, "lock_after") {
				t.Errorf("warnings %s, want %q and none on lock_after", got, says)
			}
		}
	}
	b.SharePolicy(policy)
	// An exchange that b began by itself before may still write its old policy.
	redistest.Eventually(t, time.Second, "no gateway warns of equal policies", func() bool {
		exchange(t, b, a, b)
		return !strings.Contains(warningsOf(a)+warningsOf(b), "this gateway has")
	})

	late.SharePolicy(store.Policy{"window": "9m0s"})
	exchange(t, late, a)
	if got := warningsOf(a); !strings.Contains(got, "9m0s") {
		t.Errorf("warnings %s, want one on 9m0s", got)
	}
	a.policies.clock = func() time.Time { return time.Now().Add(policyLife + 2*time.Second) }
	exchange(t, a)
	if got := warningsOf(a); strings.Contains(got, "9m0s") {
		t.Errorf("warnings %s on a gateway that is long gone", got)
	}
}

// A gateway that has ended is no longer compared, and one without a policy
// writes nothing.
func TestPolicyOfAClosedGateway(t *testing.T) {
	opt := single(t)
	a := open(t, opt)
	b, err := New(patient(opt))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	stored := func() int64 { return redistest.SharedSingle(t).Client.HLen(ctx, a.names.nodePolicies()).Val() }
	exchange(t, a, b)
	if n := stored(); n != 0 {
		t.Errorf("%d policies were written without one", n)
	}
	a.SharePolicy(store.Policy{"window": "5m0s"})
	b.SharePolicy(store.Policy{"window": "5m0s"})
	redistest.Eventually(t, 10*time.Second, "both are there", func() bool { return stored() == 2 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n := stored(); n != 1 {
		t.Errorf("%d policies are left, want 1", n)
	}
}
