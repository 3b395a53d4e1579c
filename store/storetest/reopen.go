package storetest

import (
	"errors"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// testReopen checks that a backend keeps the effects of every answered call after
// it was closed, and after a crash.
func testReopen(t *testing.T, open Factory) {
	for _, tt := range []struct {
		name string
		how  Ending
	}{{"closed", Closed}, {"crashed", Crashed}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, open)
			w.tryReopen(t, tt.how)
		})
	}
}

func (w *world) tryReopen(t *testing.T, how Ending) {
	limits := []ratelimit.Charge{charge(w, "issue_card", "9/1d"), charge(w, "total", "20/1d")}
	used, failing, lockedKey, gone := w.newKey(), w.newKey(), w.newKey(), w.newKey()
	if _, err := w.Backend.PutMeta(ctx, "a name", []byte("a value")); err != nil {
		t.Fatal(err)
	}
	accepted := w.claims(used, 5, func(c *store.Claim) { c.Charges = limits })
	for _, c := range accepted {
		w.expect(c, auth.Accepted)
	}
	w.fail(failing, 7)
	w.fail(lockedKey, 3)
	c := w.claim(lockedKey)
	c.LockAfter = 3
	w.expect(c, auth.KeyLocked)
	goneClaim := w.claim(gone)
	w.expect(goneClaim, auth.Accepted)
	w.delete(gone)

	for range 2 { // the second time, what was read back is written again
		w.reopen(t, how)
		for _, c := range accepted {
			w.expect(c, auth.ReplayedNonce)
		}
		if v := w.settle(w.claim(lockedKey)); !v.Stale {
			t.Fatalf("claim on the record before the lock: %+v, want stale", v)
		}
		for _, r := range []*store.Record{used, failing, lockedKey} {
			w.get(r.ID)
		}
		if v, err := w.Backend.Meta(ctx, "a name"); err != nil || string(v) != "a value" {
			t.Fatalf("Meta: %q, %v", v, err)
		}
		if _, err := w.Backend.Get(ctx, gone.ID); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("Get of a deleted key: %v, want ErrNotFound", err)
		}
	}
	more := w.claim(used)
	more.Charges = limits
	w.expect(more, auth.Accepted)
	w.fail(failing, 1)

	gone.Revision = random()
	w.put(gone, store.PutOptions{})
	again := w.claim(gone)
	again.Nonce = goneClaim.Nonce
	w.expect(again, auth.ReplayedNonce)
}

// testClosed checks that every call after Close returns ErrUnavailable, also when
// requests are settled during Close.
func testClosed(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	claims := w.claims(r, 64, func(*store.Claim) {})
	errs := make([]error, len(claims))
	atOnce(len(claims)+1, func(i int) {
		if i == len(claims) {
			if err := w.Backend.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			return
		}
		_, errs[i] = w.Backend.Settle(ctx, claims[i])
	})
	for _, err := range errs {
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("Settle beside Close: %v, want ErrUnavailable", err)
		}
	}
	for name, call := range w.calls(r) {
		if err := call(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s after Close: %v, want ErrUnavailable", name, err)
		}
	}
	if err := w.Backend.Ready(ctx); err == nil {
		t.Fatal("Ready after Close: nil")
	}
	if err := w.Backend.Close(); err != nil {
		t.Fatalf("second Close: %v", err)
	}
}

// calls returns every call about the record or a named value, by its name.
func (w *world) calls(r *store.Record) map[string]func() error {
	c, key := w.claim(r), w.record()
	levels := []ratelimit.Charge{charge(w, "issue_card", "1/24h")}
	return map[string]func() error{
		"Settle":     func() error { _, err := w.Backend.Settle(ctx, c); return err },
		"Look":       func() error { _, err := w.Backend.Look(ctx, c); return err },
		"Levels":     func() error { _, err := w.Backend.Levels(ctx, r.ID, levels, w.Now()); return err },
		"Get":        func() error { _, err := w.Backend.Get(ctx, r.ID); return err },
		"Put":        func() error { _, err := w.Backend.Put(ctx, key, store.PutOptions{}); return err },
		"Delete":     func() error { _, err := w.Backend.Delete(ctx, r.ID, ""); return err },
		"List":       func() error { _, err := w.Backend.List(ctx, "", 10); return err },
		"Meta":       func() error { _, err := w.Backend.Meta(ctx, "name"); return err },
		"PutMeta":    func() error { _, err := w.Backend.PutMeta(ctx, "name", []byte("x")); return err },
		"DeleteMeta": func() error { return w.Backend.DeleteMeta(ctx, "name", []byte("x")) },
	}
}
