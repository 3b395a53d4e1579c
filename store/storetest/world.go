package storetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// A world is a backend and a model. Its methods fail the test when the two
// differ.
type world struct {
	rapid.TB
	*Setup
	model *model
}

var ctx = context.Background()

func newWorld(t *testing.T, open Factory) *world {
	t.Helper()
	return &world{TB: t, Setup: open(t), model: newModel()}
}

// random returns text that no other call returned.
func random() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func nonce() (n [16]byte) {
	_, _ = rand.Read(n[:])
	return n
}

// record returns a record of a new key, not stored yet.
func (w *world) record() *store.Record {
	now := w.Now().UTC().Truncate(time.Second)
	return &store.Record{
		ID:       "ck_test_" + random(),
		Revision: random(),
		Fields:   store.Fields{Tenant: "acme", Scopes: []string{"cards:read", "cards:write"}},
		Secrets: []store.SealedSecret{
			{Version: 1, Sealed: []byte("sealed " + random()), Fingerprint: []byte(random()), CreatedAt: now},
		},
		CreatedAt: now,
		UpdatedAt: now,
	}
}

// newKey stores a new key.
func (w *world) newKey() *store.Record {
	w.Helper()
	r := w.record()
	w.put(r, store.PutOptions{})
	return r
}

func (w *world) put(r *store.Record, opt store.PutOptions) {
	w.Helper()
	if _, err := w.Backend.Put(ctx, r, opt); err != nil {
		w.Fatalf("Put: %v", err)
	}
	w.model.put(r, opt)
}

// change stores the record again, with another revision.
func (w *world) change(r *store.Record, opt store.PutOptions) {
	w.Helper()
	opt.Expect = r.Revision
	r.Revision = random()
	w.put(r, opt)
}

func (w *world) delete(r *store.Record) {
	w.Helper()
	if _, err := w.Backend.Delete(ctx, r.ID, r.Revision); err != nil {
		w.Fatalf("Delete: %v", err)
	}
	w.model.delete(r.ID)
}

// get returns the stored record after comparing it with the model's.
func (w *world) get(id string) *store.Record {
	w.Helper()
	r, err := w.Backend.Get(ctx, id)
	if err != nil {
		w.Fatalf("Get: %v", err)
	}
	k := w.model.key(id)
	if got, want := plain(w, r), plain(w, k.record); got != want {
		w.Fatalf("the stored record is\n%s\nwant\n%s", got, want)
	}
	w.sameLock(r.Lock, k.record.Lock)
	if r.Failures != k.failures {
		w.Fatalf("failure count %d, want %d", r.Failures, k.failures)
	}
	w.sameUse(r, k)
	return r
}

// plain returns the record without the fields that the backend itself writes.
func plain(t rapid.TB, r *store.Record) string {
	t.Helper()
	c := r.Clone()
	c.Lock = nil
	c.UpdatedAt = time.Time{}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatalf("record: %v", err)
	}
	return string(b)
}

func (w *world) sameLock(got, want *auth.Lock) {
	w.Helper()
	if (got == nil) != (want == nil) {
		w.Fatalf("lock %+v, want %+v", got, want)
	}
	if want == nil {
		return
	}
	if got.Failures != want.Failures || !near(got.At, want.At) || got.Until.IsZero() != want.Until.IsZero() || !near(got.Until, want.Until) {
		w.Fatalf("lock %+v, want %+v", got, want)
	}
}

// sameUse compares when the secrets that the record holds were last used.
func (w *world) sameUse(r *store.Record, k *modelKey) {
	w.Helper()
	for _, s := range k.record.Secrets {
		got, want := r.LastUsed[s.Version], k.lastUsed[s.Version]
		if !got.Equal(want) && (w.ClaimClock || got.Sub(want).Abs() > time.Minute) {
			w.Fatalf("secret %d last used %v, want %v", s.Version, got, want)
		}
	}
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() <= time.Second }

// claim returns the claim of a correct request that arrives now.
func (w *world) claim(r *store.Record) *store.Claim {
	now := w.Now()
	return &store.Claim{
		KeyID:            r.ID,
		Revision:         r.Revision,
		NextRevision:     random(),
		SecretVersion:    1,
		Now:              now,
		Timestamp:        now.Unix(),
		Window:           5 * time.Minute,
		ReplayFloorAhead: 5 * time.Second,
		Nonce:            nonce(),
		LockAfter:        50,
	}
}

// settle settles on the backend and on the model. It fails if the verdicts differ.
func (w *world) settle(c *store.Claim) store.Verdict {
	w.Helper()
	w.lookFirst(c)
	want := w.model.settle(c)
	got, err := w.Backend.Settle(ctx, c)
	if err != nil {
		w.Fatalf("Settle: %v\nclaim: %+v", err, c)
	}
	w.sameVerdict(got, want, c)
	return got
}

// lookFirst checks that Look returns the verdict that Settle is about to return.
// It calls Look twice, to find a Look that writes.
func (w *world) lookFirst(c *store.Claim) {
	w.Helper()
	want := w.model.look(c)
	for range 2 {
		got, err := w.Backend.Look(ctx, c)
		if err != nil {
			w.Fatal(err)
		}
		if got.Stale != want.Stale || got.Reason != want.Reason || got.Locked || got.OverLimit || got.States != want.States {
			w.Fatalf("a look found\n%+v\nwant\n%+v\nclaim: %+v", got, want, c)
		}
	}
}

// expect settles, and fails unless the verdict has the reason.
func (w *world) expect(c *store.Claim, reason auth.Reason) store.Verdict {
	w.Helper()
	v := w.settle(c)
	if v.Stale || v.Reason != reason {
		w.Fatalf("%v (stale %v), want %v\nclaim: %+v", v.Reason, v.Stale, reason, c)
	}
	return v
}

func (w *world) sameVerdict(got, want store.Verdict, c *store.Claim) {
	w.Helper()
	if !w.ClaimClock {
		for i := range got.States {
			w.alignTimes(&got.States[i], want.States[i])
		}
	}
	if !reflect.DeepEqual(got, want) {
		w.Fatalf("verdict\n%+v\nwant\n%+v\nclaim: %+v", got, want, c)
	}
}

// alignTimes replaces the times of a state by the wanted ones if they differ by
// no more than two clocks may.
func (w *world) alignTimes(got *ratelimit.State, want ratelimit.State) {
	const slack = 2 * time.Second
	if d := got.Reset - want.Reset; d >= -2 && d <= 2 {
		got.Reset = want.Reset
	}
	if (got.Retry-want.Retry).Abs() <= slack && (got.Retry > 0) == (want.Retry > 0) {
		got.Retry = want.Retry
	}
	if (got.Next-want.Next).Abs() <= slack && (got.Next > 0) == (want.Next > 0) {
		got.Next = want.Next
	}
}

// fail settles n requests with a wrong signature. They count as failures.
func (w *world) fail(r *store.Record, n int) {
	w.Helper()
	for range n {
		c := w.claim(r)
		c.Failed = auth.RuleSignature
		w.expect(c, auth.SignatureMismatch)
	}
}

// charge returns the charge of one request to the bucket of a limit such as
// "50/24h".
func charge(w *world, bucket, limit string) ratelimit.Charge {
	w.Helper()
	l, err := ratelimit.ParseLimit(limit)
	if err != nil {
		w.Fatalf("limit %q: %v", limit, err)
	}
	return ratelimit.NewCharge(bucket, l, l.Cost)
}

// reopen ends the backend and starts another one on the same state.
func (w *world) reopen(t testing.TB, how Ending) {
	w.Helper()
	w.Backend = w.Setup.Reopen(t, how)
}
