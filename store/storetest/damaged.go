package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/card-gateway/card-gateway/store"
)

// testDamaged checks that a record that cannot be read costs only itself: it is
// named wherever it is read, all others are listed, and it can be deleted.
func testDamaged(t *testing.T, open Factory) {
	w := newWorld(t, open)
	if len(w.Damage) == 0 {
		t.Skip("the backend checks its records as a whole")
	}
	var whole, damaged []string
	for name, damage := range w.Damage {
		whole = append(whole, w.newKey().ID)
		r := w.newKey()
		damage(t, r.ID)
		damaged = append(damaged, r.ID)
		wantDamaged(t, w.Backend, name, r.ID)
	}
	for _, limit := range []int{1, 2, 5, 1000} {
		ids, found := w.listAll(limit)
		for _, id := range whole {
			if !slices.Contains(ids, id) {
				t.Errorf("in pages of %d: the whole record %s is not listed", limit, id)
			}
		}
		for _, id := range damaged {
			if n := countDamaged(found, id); n != 1 {
				t.Errorf("in pages of %d: the damaged record %s is named %d times", limit, id, n)
			}
		}
		if len(found) != len(damaged) {
			t.Errorf("in pages of %d: %d damaged records, want %d", limit, len(found), len(damaged))
		}
	}
	for _, id := range damaged {
		if _, err := w.Backend.Delete(ctx, id, ""); err != nil {
			t.Errorf("Delete of a damaged record: %v", err)
		}
		if _, err := w.Backend.Get(ctx, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get after Delete of a damaged record: %v, want ErrNotFound", err)
		}
	}
	if _, found := w.listAll(1000); len(found) > 0 {
		t.Errorf("after Delete, %v is listed", found)
	}
}

func countDamaged(all []*store.DamagedError, id string) (n int) {
	for _, d := range all {
		if d.ID == id {
			n++
		}
	}
	return n
}

// wantDamaged fails unless Get names the key and a field.
func wantDamaged(t testing.TB, backend store.Backend, name, id string) {
	t.Helper()
	_, err := backend.Get(ctx, id)
	var damaged *store.DamagedError
	if !errors.As(err, &damaged) || damaged.ID != id || !slices.Contains(store.DamagedFields(), damaged.Field) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%s: Get: %v, want a DamagedError with the key and a field", name, err)
	}
}
