package keys_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// withDamaged returns a world with three keys, and the id of the second, whose record
// cannot be read.
func withDamaged(t *testing.T, f ...func(*keys.Options)) (w *world, all []string, damaged string) {
	w = newWorld(t, f...)
	for range 3 {
		all = append(all, w.create().ID)
	}
	w.backend.damaged.Store(all[1], true)
	return w, all, all[1]
}

// TestListNamesDamaged: no query hides a key whose record cannot be read, in a page
// of any length, because nobody knows whose it is.
func TestListNamesDamaged(t *testing.T) {
	w, all, damaged := withDamaged(t)
	for _, q := range []keys.ListQuery{{}, {Tenant: "acme"}, {Status: keys.StatusActive}, {Search: "acme"}} {
		for _, q.Limit = range []int{1, 2, 3, 500} {
			var ids []string
			for page := q; ; {
				views, next, err := w.List(t.Context(), page)
				if err != nil {
					t.Fatalf("%+v: %v", page, err)
				}
				for _, v := range views {
					ids = append(ids, v.ID)
					if unreadable := v.Status == keys.StatusUnreadable; unreadable != (v.ID == damaged) {
						t.Errorf("%+v", v)
					}
				}
				if page.Cursor = next; next == "" {
					break
				}
			}
			slices.Sort(ids)
			if want := slices.Sorted(slices.Values(all)); !slices.Equal(ids, want) {
				t.Errorf("%+v: %v, want %v", q, ids, want)
			}
		}
	}
	if views, _, err := w.List(t.Context(), keys.ListQuery{Status: keys.StatusUnreadable, Limit: 9}); err != nil || len(views) != 1 {
		t.Errorf("%v, %v; want the damaged key", views, err)
	}
	view, err := w.Show(t.Context(), damaged)
	if err != nil || view.Seal.State != keys.SealRefused || view.Seal.Field != "document" || !strings.Contains(view.Seal.Problem, "delete the key") || view.Seal.Digest != "" {
		t.Errorf("%+v, %v; want the field, the remedy, and nothing to approve", view, err)
	}
}

// TestCensusCountsDamaged: with all others, and each is reported.
func TestCensusCountsDamaged(t *testing.T) {
	var mu sync.Mutex
	var reported []string
	w, _, damaged := withDamaged(t, func(o *keys.Options) {
		o.OnForged = func(e *keys.ForgedError) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, e.KeyID+" "+e.Field)
		}
	})
	status := w.Status(t.Context())
	if status.Problem != "" || status.Keys[keys.StatusActive] != 2 || status.Keys[keys.StatusUnreadable] != 1 || status.Seals[keys.SealRefused] != 1 {
		t.Errorf("%+v", status)
	}
	if want := []string{damaged + " document"}; !slices.Equal(reported, want) {
		t.Errorf("reported %v, want %v", reported, want)
	}
}

// TestStartBesideDamaged: a gateway starts, and knows all ids, when a record cannot
// be read. Only its own requests are refused.
func TestStartBesideDamaged(t *testing.T) {
	w, all, damaged := withDamaged(t)
	again := w.service(ring(t, masterKey(1)))
	if err := again.TestMasterKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range all {
		key, err := again.Lookup(t.Context(), id)
		if id == damaged {
			if !errors.Is(err, keys.ErrForged) || !errors.Is(err, store.ErrUnavailable) || key != nil {
				t.Errorf("the damaged key: %v", err)
			}
		} else if err != nil {
			t.Error(err)
		}
	}
}

// TestDrillAndCopyNameDamaged: and take all others.
func TestDrillAndCopyNameDamaged(t *testing.T) {
	w, _, damaged := withDamaged(t)
	drilled, err := w.Drill(t.Context())
	if err != nil || drilled.Opened != 2 || len(drilled.Failed) != 1 || drilled.Failed[0].ID != damaged {
		t.Errorf("%+v, %v", drilled, err)
	}
	copied, err := newWorld(t).Copy(t.Context(), w.backend, by)
	if err != nil || len(copied.Copied) != 2 || len(copied.Skipped) != 1 || copied.Skipped[0].ID != damaged {
		t.Errorf("%+v, %v", copied, err)
	}
}

// TestResealPassesDamaged: the others are sealed under the new master key.
func TestResealPassesDamaged(t *testing.T) {
	w, all, damaged := withDamaged(t)
	resealed := make(chan keys.Change, len(all))
	rotated := w.service(ring(t, masterKey(2), masterKey(1)), func(o *keys.Options) { o.OnChange = func(c keys.Change) { resealed <- c } })
	if err := rotated.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range len(all) - 1 {
		if c := <-resealed; c.Err != nil || c.KeyID == damaged {
			t.Errorf("%+v", c)
		}
	}
}

// TestDeleteDamaged: a key whose record cannot be read can be deleted, with its
// revision or without one. It cannot be changed or approved.
func TestDeleteDamaged(t *testing.T) {
	w, _, damaged := withDamaged(t)
	if _, err := w.Disable(t.Context(), damaged, by); !errors.Is(err, keys.ErrForged) {
		t.Errorf("Disable: %v", err)
	}
	if _, err := w.Seal(t.Context(), damaged, "x", by); !errors.Is(err, keys.ErrForged) {
		t.Errorf("Seal: %v", err)
	}
	view, err := w.Show(t.Context(), damaged)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Delete(t.Context(), damaged, keys.By{Actor: "a", Revision: "another"}); !errors.Is(err, keys.ErrRevision) {
		t.Errorf("Delete of another revision: %v", err)
	}
	if _, err := w.Delete(t.Context(), damaged, keys.By{Actor: "a", Revision: view.Revision}); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if _, err := w.Show(t.Context(), damaged); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Show after Delete: %v", err)
	}
	last := w.changes[len(w.changes)-1]
	if last.Action != "delete" || last.KeyID != damaged || last.Err != nil || len(last.Fields) > 0 {
		t.Errorf("audited as %+v", last)
	}
}
