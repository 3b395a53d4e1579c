package storetest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// testLock checks that the 50th failure in a row is refused for its own reason,
// that the next request is refused as KeyLocked and locks the key, and that then
// the judged record is stale. An accepted request in between clears the count.
func testLock(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	w.fail(r, 49)
	w.expect(w.claim(r), auth.Accepted)
	if got := w.get(r.ID); got.Failures != 0 {
		t.Fatalf("count %d after an accepted request, want 0", got.Failures)
	}
	w.fail(r, 50)

	c := w.claim(r) // a correct request
	v := w.expect(c, auth.KeyLocked)
	if !v.Locked || v.Failures != 0 {
		t.Fatalf("locked %v with %d failures, want the lock written and the count 0", v.Locked, v.Failures)
	}
	got := w.get(r.ID)
	if got.Revision != c.NextRevision || got.Lock == nil || got.Lock.Failures != 50 || !got.Lock.Until.IsZero() {
		t.Fatalf("record after the lock: revision %q, lock %+v", got.Revision, got.Lock)
	}
	if v := w.settle(w.claim(r)); !v.Stale {
		t.Fatalf("a claim on the record before the lock: %+v, want stale", v)
	}

	// An operator unlocks the key, and the count starts at 0 again.
	got.Lock = nil
	w.change(got, store.PutOptions{ClearFailures: true})
	w.fail(got, 50)
	w.expect(w.claim(got), auth.KeyLocked)
}

// testLockDuration checks that an expired lock has no effect, and that the key
// can be locked again.
func testLockDuration(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	w.fail(r, 3)
	c := w.claim(r)
	c.LockAfter, c.LockDuration = 3, 10*time.Minute
	w.expect(c, auth.KeyLocked)
	got := w.get(r.ID)
	if until := c.Now.Add(10 * time.Minute); !near(got.Lock.Until, until) {
		t.Fatalf("locked until %v, want %v", got.Lock.Until, until)
	}
	w.expect(w.claim(got), auth.Accepted) // the judge accepts the request, because the lock has ended
	w.fail(got, 3)
	c = w.claim(got)
	c.LockAfter = 3
	w.expect(c, auth.KeyLocked)
	if got = w.get(r.ID); !got.Lock.Until.IsZero() {
		t.Fatalf("second lock until %v, want no end", got.Lock.Until)
	}
}

// failFrom settles n requests with a wrong signature from a client, and returns how many
// of them did not count.
func (w *world) failFrom(r *store.Record, client string, n int) (uncounted int) {
	w.Helper()
	for range n {
		c := w.claim(r)
		c.From, c.Failed = auth.Holder(netip.MustParseAddr(client)), auth.RuleSignature
		if v := w.expect(c, auth.SignatureMismatch); v.Uncounted {
			uncounted++
		}
	}
	return uncounted
}

// acceptFrom settles a correct request from a client.
func (w *world) acceptFrom(r *store.Record, client string) {
	w.Helper()
	c := w.claim(r)
	c.From = auth.Holder(netip.MustParseAddr(client))
	w.expect(c, auth.Accepted)
}

// testLockShare checks that of a key that was accepted from another holder, a holder adds
// at most 25 failures, also after a crash, and that nobody gains by anything else: not a
// key that is not used, its only client, a second holder, or a holder after ten minutes.
func testLockShare(t *testing.T, open Factory) {
	const client, stranger, second = "192.0.2.7", "2001:db8:1:2::1", "198.51.100.9"
	w := newWorld(t, open)
	r := w.newKey()
	want := func(what string, uncounted, want int) {
		t.Helper()
		if uncounted != want {
			t.Fatalf("%s: %d failures did not count, want %d", what, uncounted, want)
		}
	}
	want("a key that was never used", w.failFrom(r, stranger, 49), 0)
	w.acceptFrom(r, client)
	want("its only client", w.failFrom(r, client, 49), 0)
	for range 3 {
		w.acceptFrom(r, client)
		want("a stranger", w.failFrom(r, stranger, 30), 5)
		want("the same /64", w.failFrom(r, "2001:db8:1:2:ffff::9", 30), 30)
		want("another", w.failFrom(r, second, 10), 0)
		w.reopen(t, Crashed)
		want("the stranger after a crash", w.failFrom(r, stranger, 30), 30)
		want("another after a crash", w.failFrom(r, second, 14), 0)
	}
	w.acceptFrom(r, stranger)
	w.acceptFrom(r, client)
	want("a client among others", w.failFrom(r, client, 30), 5)
	want("a second one", w.failFrom(r, second, 25), 0)
	w.expect(w.claim(r), auth.KeyLocked)
	if w.Advance == nil {
		return
	}
	r = w.newKey()
	w.acceptFrom(r, client)
	w.acceptFrom(r, stranger)
	w.Advance(10 * time.Second)
	w.acceptFrom(r, stranger)
	want("a client that is noted again", w.failFrom(r, stranger, 30), 5)
	w.acceptFrom(r, client)
	w.Advance(10 * time.Minute)
	want("within ten minutes", w.failFrom(r, stranger, 30), 5)
	w.Advance(10 * time.Second)
	want("after ten minutes", w.failFrom(r, stranger, 25), 0)
	w.expect(w.claim(r), auth.KeyLocked)
}

// testManyHolders checks that what the first 50 holders have added is known, and that the
// failures of all others count.
func testManyHolders(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	w.acceptFrom(r, "192.0.2.7")
	fail := func(i int) bool {
		t.Helper()
		c := w.claim(r)
		c.From, c.Failed, c.LockAfter = auth.Holder(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})), auth.RuleSignature, 5000
		return w.expect(c, auth.SignatureMismatch).Uncounted
	}
	for range 25 {
		for i := range 52 {
			fail(i)
		}
	}
	for i := range 52 {
		if got := fail(i); got != (i < 50) {
			t.Fatalf("holder %d of 52: uncounted %v after 25 failures", i, got)
		}
	}
}

// testDryRun checks that with DryRun verdicts, nonces and charges are as usual,
// and that the count and the record do not change.
func testDryRun(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	w.fail(r, 2)

	bad := w.claim(r)
	bad.DryRun, bad.Failed = true, auth.RuleSignature
	for range 5 {
		if v := w.expect(bad, auth.SignatureMismatch); v.Failures != 2 {
			t.Fatalf("count %d in a dry run, want 2", v.Failures)
		}
	}
	good := w.claim(r)
	good.DryRun = true
	w.expect(good, auth.Accepted)
	w.expect(good, auth.ReplayedNonce)

	atLimit := w.claim(r)
	atLimit.DryRun, atLimit.LockAfter = true, 2
	for range 3 {
		if v := w.expect(atLimit, auth.KeyLocked); v.Locked {
			t.Fatal("a dry run locked the key")
		}
	}
	if got := w.get(r.ID); got.Lock != nil || got.Revision != r.Revision || got.Failures != 2 {
		t.Fatalf("after dry runs: lock %+v, revision changed %v, count %d", got.Lock, got.Revision != r.Revision, got.Failures)
	}
}

// testStale checks that a claim on another revision than the stored one, or on a
// missing key, changes nothing.
func testStale(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	old := *r
	w.change(r, store.PutOptions{})
	for _, c := range []struct {
		name string
		rec  func() (id, revision string)
	}{
		{"older revision", func() (string, string) { return r.ID, old.Revision }},
		{"unknown revision", func() (string, string) { return r.ID, random() }},
		{"no revision", func() (string, string) { return r.ID, "" }},
		{"unknown key", func() (string, string) { return "ck_test_" + random(), r.Revision }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.TB = t
			claim := w.claim(r)
			claim.KeyID, claim.Revision = c.rec()
			for _, failed := range []auth.Rules{0, auth.RuleSignature} {
				claim.Failed = failed
				if v := w.settle(claim); !v.Stale {
					t.Fatalf("%+v, want stale", v)
				}
			}
			again := *claim
			again.KeyID, again.Revision, again.Failed = r.ID, r.Revision, 0
			w.expect(&again, auth.Accepted)
			w.get(r.ID)
		})
	}
	w.TB = t
	w.delete(r)
	if v := w.settle(w.claim(r)); !v.Stale {
		t.Fatalf("claim on a deleted key: %+v, want stale", v)
	}
}

// testClearFailures checks that Put keeps the count, unless it is to clear it.
func testClearFailures(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	w.fail(r, 4)
	w.change(r, store.PutOptions{})
	if got := w.get(r.ID); got.Failures != 4 {
		t.Fatalf("count %d after a change, want 4", got.Failures)
	}
	w.fail(r, 1)
	w.change(r, store.PutOptions{ClearFailures: true})
	if got := w.get(r.ID); got.Failures != 0 {
		t.Fatalf("count %d after it was cleared, want 0", got.Failures)
	}
}

// testLastUsed checks that an accepted request records which secret verified it,
// and that a refused one does not.
func testLastUsed(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	r.Secrets = append([]store.SealedSecret{{Version: 2, Sealed: []byte("second")}}, r.Secrets...)
	w.change(r, store.PutOptions{})

	c := w.claim(r)
	c.SecretVersion, c.Failed = 2, auth.RuleScope
	w.expect(c, auth.ScopeMissing)
	w.expect(w.claim(r), auth.Accepted)
	if got := w.get(r.ID); !got.LastUsed[2].IsZero() || got.LastUsed[1].IsZero() {
		t.Fatalf("last used %v, want secret 1 alone", got.LastUsed)
	}
	c = w.claim(r)
	c.SecretVersion = 2
	w.expect(c, auth.Accepted)
	w.get(r.ID)
}
