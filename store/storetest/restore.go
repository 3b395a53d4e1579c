package storetest

import (
	"errors"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// testRestore puts back records that were deleted, forged or damaged. They are as
// they were, no request is accepted again, and new ones that are stamped after the
// floor are accepted.
func testRestore(t *testing.T, open Factory) {
	w := newWorld(t, open)
	lose := map[string]func(t testing.TB, id string){
		"nothing": func(testing.TB, string) {},
		"deleted": func(t testing.TB, id string) {
			if _, err := w.Backend.Delete(ctx, id, ""); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, damage := range w.Damage {
		lose[name] = damage
	}
	for name, lost := range lose {
		r := w.newKey()
		c := w.claim(r)
		w.settled(c, auth.Accepted)
		lost(t, r.ID)
		w.restored(name, r)
		again := w.repeat(c, c.Window)
		again.Revision = r.Revision
		if w.passes(again) {
			t.Errorf("%s: a request was accepted again after the record was put back", name)
		}
		fresh := w.claim(r)
		fresh.Timestamp += 60
		w.settled(fresh, auth.Accepted)
	}
}

// restored puts the record back with a new revision. It fails if another revision than
// the stored one is replaced.
func (w *world) restored(name string, r *store.Record) {
	w.Helper()
	opt := store.PutOptions{Restore: true, ClearFailures: true}
	stored, err := w.Backend.Get(ctx, r.ID)
	var damaged *store.DamagedError
	switch {
	case errors.As(err, &damaged):
		opt.Expect = damaged.Revision
	case err == nil:
		opt.Expect = stored.Revision
	case !errors.Is(err, store.ErrNotFound):
		w.Fatal(err)
	}
	r.Revision = random()
	other := opt
	other.Expect = random()
	if _, err := w.Backend.Put(ctx, r, other); !errors.Is(err, store.ErrConflict) {
		w.Errorf("%s: replacing another revision: %v, want ErrConflict", name, err)
	}
	if _, err := w.Backend.Put(ctx, r, opt); err != nil {
		w.Fatalf("%s: %v", name, err)
	}
	if got, err := w.Backend.Get(ctx, r.ID); err != nil || plain(w, got) != plain(w, r) || got.Failures != 0 {
		w.Errorf("%s: put back as %+v, %v", name, got, err)
	}
}
