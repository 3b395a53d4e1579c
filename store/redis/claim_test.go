package redis

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

func newRecord() *store.Record {
	now := time.Now().UTC()
	return &store.Record{ID: "ck_test_" + random(), Revision: random(), Fields: store.Fields{Tenant: "acme", Scopes: []string{"*"}}, CreatedAt: now, UpdatedAt: now}
}

// newKey stores a new key.
func newKey(t testing.TB, s *Store) *store.Record {
	t.Helper()
	r := newRecord()
	put(t, s, r)
	return r
}

func put(t testing.TB, s *Store, r *store.Record) store.Durability {
	t.Helper()
	d, err := s.Put(ctx, r, store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newClaim returns the claim of a correct request that arrives now.
func newClaim(r *store.Record) *store.Claim {
	now := time.Now()
	c := &store.Claim{
		KeyID: r.ID, Revision: r.Revision, NextRevision: random(), SecretVersion: 1,
		Now: now, Timestamp: now.Unix(), Window: 5 * time.Minute, ReplayFloorAhead: 5 * time.Second, LockAfter: 50,
	}
	rand.Read(c.Nonce[:])
	return c
}

// charge adds the bucket of a limit to the claim.
func charge(t testing.TB, c *store.Claim, bucket, limit string) *store.Claim {
	t.Helper()
	l, err := ratelimit.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	c.Charges = append(c.Charges, ratelimit.NewCharge(bucket, l, l.Cost))
	return c
}

// again returns the claim of the same request, arriving now.
func again(c *store.Claim) *store.Claim {
	d := *c
	d.Now, d.NextRevision = time.Now(), random()
	return &d
}

func expect(t testing.TB, s *Store, c *store.Claim, want auth.Reason) store.Verdict {
	t.Helper()
	v, err := s.Settle(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if v.Stale || v.Reason != want {
		t.Fatalf("%v (stale %v), want %v", v.Reason, v.Stale, want)
	}
	return v
}

// expectNotAgain repeats a request whose nonce may be lost. It must not be
// accepted.
func expectNotAgain(t testing.TB, s *Store, c *store.Claim) {
	t.Helper()
	v, err := s.Settle(ctx, again(c))
	if err != nil || v.Stale || v.Reason != auth.ReplayFloor && v.Reason != auth.ReplayedNonce {
		t.Fatalf("%+v, %v; want the replay floor, or a repetition", v, err)
	}
}

func expectUnavailable(t testing.TB, s *Store, c *store.Claim) {
	t.Helper()
	if v, err := s.Settle(ctx, c); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("%+v, %v; want ErrUnavailable", v, err)
	}
}

// flows waits until a new request of the key is accepted again, stamped far
// enough ahead that a replay floor does not matter.
func flows(t testing.TB, s *Store, r *store.Record, within time.Duration) {
	t.Helper()
	var last error
	deadline := time.Now().Add(redistest.Busy * within)
	for {
		c := newClaim(r)
		c.ReplayFloorAhead = -time.Hour
		v, err := s.Settle(ctx, c)
		if err == nil && !v.Stale && v.Reason == auth.Accepted {
			return
		}
		if last = err; time.Now().After(deadline) {
			t.Fatalf("no request was accepted within %v: %+v, %v", redistest.Busy*within, v, last)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// A gateway of the version before clears the count of failures alone. What a holder has
// added to that count is void then.
func TestCountClearedByEarlierVersion(t *testing.T) {
	s := open(t, single(t))
	r := newKey(t, s)
	stranger := func() store.Verdict {
		c := newClaim(r)
		c.Failed, c.From = auth.RuleSignature, netip.MustParsePrefix("192.0.2.8/32")
		return expect(t, s, c, auth.SignatureMismatch)
	}
	expect(t, s, newClaim(r), auth.Accepted)
	for range 25 {
		stranger()
	}
	if v := stranger(); !v.Uncounted {
		t.Fatalf("%+v: want that it is not counted", v)
	}
	if err := s.client.HDel(ctx, s.names.record(r.ID), "fails").Err(); err != nil {
		t.Fatal(err)
	}
	if v := stranger(); v.Uncounted || v.Failures != 1 {
		t.Fatalf("%+v: want a count of 1", v)
	}
}

// Within ten seconds, accepted requests note at most two of all addresses that use a key.
func TestAddressesAreNotedSeldom(t *testing.T) {
	s := open(t, single(t))
	r := newKey(t, s)
	noted := map[string]bool{}
	now := time.Now()
	for i := range 60 {
		c := newClaim(r)
		c.Now, c.From = now, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 20)}), 32)
		expect(t, s, c, auth.Accepted)
		noted[s.client.HGet(ctx, s.names.record(r.ID), "from").Val()] = true
	}
	if len(noted) != 2 {
		t.Errorf("written %d times: %v; want 2", len(noted), noted)
	}
}
