package storetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// atOnce calls f in n goroutines that begin together.
func atOnce(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// settleAtOnce settles the claims together and returns the verdicts.
func (w *world) settleAtOnce(claims []*store.Claim) []store.Verdict {
	w.Helper()
	verdicts := make([]store.Verdict, len(claims))
	errs := make([]error, len(claims))
	atOnce(len(claims), func(i int) { verdicts[i], errs[i] = w.Backend.Settle(ctx, claims[i]) })
	if err := errors.Join(errs...); err != nil {
		w.Fatalf("Settle: %v", err)
	}
	return verdicts
}

// outcomes counts verdicts by reason; stale ones apart.
func outcomes(verdicts []store.Verdict) (byReason map[auth.Reason]int, stale int) {
	byReason = map[auth.Reason]int{}
	for _, v := range verdicts {
		if v.Stale {
			stale++
		} else {
			byReason[v.Reason]++
		}
	}
	return byReason, stale
}

// claims makes n claims on the record, changed by edit.
func (w *world) claims(r *store.Record, n int, edit func(*store.Claim)) []*store.Claim {
	all := make([]*store.Claim, n)
	for i := range all {
		all[i] = w.claim(r)
		edit(all[i])
	}
	return all
}

// testCopies checks that of 64 copies of one request exactly one is accepted.
func testCopies(t *testing.T, open Factory) {
	w := newWorld(t, open)
	for range 10 {
		n := nonce()
		claims := w.claims(w.newKey(), 64, func(c *store.Claim) { c.Nonce = n })
		got, stale := outcomes(w.settleAtOnce(claims))
		if got[auth.Accepted] != 1 || got[auth.ReplayedNonce] != 63 || stale != 0 {
			t.Fatalf("%v and %d stale, want 1 accepted and 63 replays", got, stale)
		}
	}
}

// testFailuresAtOnce checks that no failure is lost or counted twice.
func testFailuresAtOnce(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	claims := w.claims(r, 64, func(c *store.Claim) { c.Failed, c.LockAfter = auth.RuleSignature, 100 })
	verdicts := w.settleAtOnce(claims)
	seen := map[int]bool{}
	for _, v := range verdicts {
		if v.Reason != auth.SignatureMismatch || seen[v.Failures] {
			t.Fatalf("%v with count %d, seen before: %v", v.Reason, v.Failures, seen[v.Failures])
		}
		seen[v.Failures] = true
	}
	got, err := w.Backend.Get(ctx, r.ID)
	if err != nil || got.Failures != 64 {
		t.Fatalf("%v, %v: want a count of 64", got, err)
	}
}

// testLockAtOnce sends 64 failures at once with a threshold of 50. Of these, 50
// are refused for their own reason, one locks the key, and 13 find a changed
// record.
func testLockAtOnce(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	claims := w.claims(r, 64, func(c *store.Claim) { c.Failed = auth.RuleSignature })
	verdicts := w.settleAtOnce(claims)
	got, stale := outcomes(verdicts)
	if got[auth.SignatureMismatch] != 50 || got[auth.KeyLocked] != 1 || stale != 13 {
		t.Fatalf("%v and %d stale, want 50, 1 and 13", got, stale)
	}
	rec, err := w.Backend.Get(ctx, r.ID)
	if err != nil || rec.Lock == nil || rec.Lock.Failures != 50 || rec.Failures != 0 {
		t.Fatalf("%+v, %v: want a lock after 50 failures", rec, err)
	}
	for i, v := range verdicts {
		if v.Locked != (v.Reason == auth.KeyLocked) || (v.Locked && rec.Revision != claims[i].NextRevision) {
			t.Fatalf("verdict %+v, stored revision %q", v, rec.Revision)
		}
	}
}

// testQuotaAtOnce sends 200 requests at once against a limit of 50.
func testQuotaAtOnce(t *testing.T, open Factory) {
	w := newWorld(t, open)
	limits := []ratelimit.Charge{charge(w, "issue_card", "50/1d"), charge(w, "total", "1000/1d")}
	claims := w.claims(w.newKey(), 200, func(c *store.Claim) { c.Charges = limits })
	left := map[int64]bool{}
	verdicts := w.settleAtOnce(claims)
	for _, v := range verdicts {
		if v.Reason == auth.Accepted {
			left[v.States[0].Remaining] = true
		}
	}
	if got, _ := outcomes(verdicts); got[auth.Accepted] != 50 || got[auth.RateLimited] != 150 {
		t.Fatalf("%v, want 50 accepted and 150 rate limited", got)
	}
	for i := range int64(50) {
		if !left[i] {
			t.Fatalf("no verdict has %d tokens left", i)
		}
	}
}

// testPutAtOnce checks that of many writers with one condition exactly one
// succeeds.
func testPutAtOnce(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.record()
	race := func(expect string, lost error) *store.Record {
		t.Helper()
		records := make([]*store.Record, 16)
		errs := make([]error, len(records))
		for i := range records {
			records[i] = r.Clone()
			records[i].Revision = random()
		}
		atOnce(len(records), func(i int) {
			_, errs[i] = w.Backend.Put(ctx, records[i], store.PutOptions{Expect: expect})
		})
		var winner *store.Record
		for i, err := range errs {
			switch {
			case err == nil && winner == nil:
				winner = records[i]
			case err == nil:
				t.Fatal("two writers succeeded")
			case !errors.Is(err, lost):
				t.Fatalf("another writer got %v, want %v", err, lost)
			}
		}
		if winner == nil {
			t.Fatal("nobody won")
		}
		got, err := w.Backend.Get(ctx, r.ID)
		if err != nil || got.Revision != winner.Revision {
			t.Fatalf("%v, %v: the winner's record is not stored", got, err)
		}
		return winner
	}
	winner := race("", store.ErrExists)
	race(winner.Revision, store.ErrConflict)
}

// testMetaAtOnce checks that of many writers of a name one succeeds, and that all
// get its value.
func testMetaAtOnce(t *testing.T, open Factory) {
	w := newWorld(t, open)
	name := random()
	got := make([]string, 16)
	errs := make([]error, len(got))
	atOnce(len(got), func(i int) {
		v, err := w.Backend.PutMeta(ctx, name, []byte(random()))
		got[i], errs[i] = string(v), err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		if v != got[0] {
			t.Fatalf("two values were stored: %q and %q", v, got[0])
		}
	}
}

// testChangeAtOnce changes a record while requests are settled on it. After Put
// has returned, no claim on the old revision may be accepted.
func testChangeAtOnce(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	var settlers sync.WaitGroup
	stop := make(chan struct{})
	errs := make([]error, 4)
	for i := range errs {
		settlers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := w.Backend.Settle(ctx, w.claim(r)); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	current := r
	for range 10 {
		next := current.Clone()
		next.Revision = random()
		if _, err := w.Backend.Put(ctx, next, store.PutOptions{Expect: current.Revision}); err != nil {
			t.Fatal(err)
		}
		v, err := w.Backend.Settle(ctx, w.claim(current))
		if err != nil || !v.Stale {
			t.Fatalf("%+v, %v: a claim on the revision before the change, want stale", v, err)
		}
		current = next
	}
	close(stop)
	settlers.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
