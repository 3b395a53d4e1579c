package keys_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// TestRotateByHolder is a script of moments: who may rotate when.
func TestRotateByHolder(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	change := func(f func() (keys.Changed, error)) {
		t.Helper()
		if _, err := f(); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(version int, want error) keys.Changed {
		t.Helper()
		before := len(w.changes)
		changed, err := w.RotateByHolder(t.Context(), id, version, time.Hour)
		if !errors.Is(err, want) {
			t.Fatalf("rotating with version %d: %v, want %v", version, err, want)
		}
		switch audited := w.changes[before:]; {
		case want != nil && (changed.Secret != "" || len(audited) > 0):
			t.Fatalf("a refused rotation made %+v and the audit lines %+v", changed, audited)
		case want == nil && (changed.Secret == "" || len(audited) != 1 || audited[0].Actor != id || audited[0].Action != "rotate"):
			t.Fatalf("a rotation made %+v and the audit lines %+v", changed, audited)
		}
		return changed
	}

	expect(2, keys.ErrOldSecret) // a version that does not exist
	expect(0, keys.ErrOldSecret)
	changed := expect(1, nil)
	if len(changed.Secrets) != 2 || changed.Secrets[0].Version != 2 || changed.Secrets[1].ExpiresAt.Sub(w.clock()) != time.Hour {
		t.Fatalf("the secrets are %+v", changed.Secrets)
	}
	expect(1, keys.ErrOldSecret)
	expect(2, keys.ErrTwoSecrets)
	w.pass(time.Hour - 1)
	expect(2, keys.ErrTwoSecrets)
	w.pass(1)
	expect(1, keys.ErrOldSecret)
	expect(2, nil)
	w.pass(time.Hour)

	change(func() (keys.Changed, error) { return w.Disable(t.Context(), id, by) })
	expect(3, keys.ErrNotActive)
	change(func() (keys.Changed, error) { return w.Enable(t.Context(), id, by) })
	w.tamper(id, func(r *store.Record) { r.Lock = &auth.Lock{At: w.clock(), Failures: 50} })
	expect(3, keys.ErrNotActive)
	change(func() (keys.Changed, error) { return w.Unlock(t.Context(), id, by) })
	soon := `{"expires_at":"` + w.clock().Add(time.Second).Format(time.RFC3339) + `"}`
	change(func() (keys.Changed, error) { return w.Update(t.Context(), id, []byte(soon), by) })
	w.pass(time.Second)
	expect(3, keys.ErrNotActive)
}

// TestRotateByHolderAtOnce demands that, of several requests with one secret at
// the same time, exactly one gets a new secret.
func TestRotateByHolderAtOnce(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	const callers = 8
	results := make(chan error, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			_, err := w.RotateByHolder(t.Context(), id, 1, time.Hour)
			results <- err
		})
	}
	all.Wait()
	close(results)
	rotated := 0
	for err := range results {
		switch {
		case err == nil:
			rotated++
		case !errors.Is(err, keys.ErrOldSecret):
			t.Error(err)
		}
	}
	if rotated != 1 {
		t.Errorf("%d of %d rotations were made, want 1", rotated, callers)
	}
	if n := len(w.fresh(id).Secrets); n != 2 {
		t.Errorf("the key has %d secrets, want 2", n)
	}
}
