package keys_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

const day = 24 * time.Hour

// retired returns the versions of a key's retired secrets, as the judge sees
// them.
func (w *world) retired(id string) string {
	w.t.Helper()
	var versions []int
	for _, s := range w.fresh(id).Retired {
		versions = append(versions, s.Version())
	}
	return fmt.Sprint(versions)
}

func TestRetiredSecretsAreKept(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	rotate := func(how keys.Rotation) {
		t.Helper()
		if _, err := w.Rotate(t.Context(), made.ID, how, by); err != nil {
			t.Fatal(err)
		}
	}
	want := func(versions string) {
		t.Helper()
		if got := w.retired(made.ID); got != versions {
			t.Errorf("retired are %s, want %s", got, versions)
		}
	}
	want("[]")
	rotate(keys.Rotation{})
	want("[1]")
	rotate(keys.Rotation{Overlap: day}) // version 2 lives on
	want("[1]")
	w.pass(day)
	want("[2 1]")
	rotate(keys.Rotation{Overlap: day})
	rotate(keys.Rotation{Overlap: day}) // version 3 ends early
	want("[3 2]")
	w.pass(day - time.Nanosecond)
	want("[3 2]")
	w.pass(time.Nanosecond)
	want("[4 3]")
	w.pass(29*day - time.Nanosecond)
	want("[4 3]")
	w.pass(time.Nanosecond)
	want("[4]")
	w.pass(day)
	want("[]")
	rotate(keys.Rotation{})
	rotate(keys.Rotation{Forget: true, Overlap: day})
	want("[]")
	rotate(keys.Rotation{Forget: true})
	want("[]")
	if strings.Count(w.record(made.ID), `"sealed"`) != 1 {
		t.Error("the record still has retired secrets")
	}
}

func TestRetiredSecretsAreShown(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	changed, err := w.Rotate(t.Context(), made.ID, keys.Rotation{}, by)
	if err != nil {
		t.Fatal(err)
	}
	if len(changed.Secrets) != 1 || len(changed.RetiredSecrets) != 1 || changed.RetiredSecrets[0].Version != 1 || !changed.RetiredSecrets[0].ExpiresAt.Equal(epoch) {
		t.Errorf("%+v", changed.View)
	}
	if got := w.accepts(w.fresh(made.ID), made.Secret, changed.Secret); got[0] || !got[1] {
		t.Errorf("accepts %v", got)
	}
	c := w.changes[len(w.changes)-1]
	if doc, err := json.Marshal(c); err != nil || !strings.Contains(string(doc), `"secrets"`) || strings.Contains(string(doc), "sealed") {
		t.Errorf("reported %s, %v", doc, err)
	}
}

// When the clock goes back, a retired secret must not become live again.
func TestRetiredSecretsNeverVerify(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	if _, err := w.Rotate(t.Context(), made.ID, keys.Rotation{}, by); err != nil {
		t.Fatal(err)
	}
	w.pass(-time.Hour)
	if got := w.accepts(w.fresh(made.ID), made.Secret); got[0] {
		t.Error("an hour before its end it verifies again")
	}
}

// A retired secret that cannot be opened does not stop the key from being used,
// copied and sealed again.
func TestDamagedRetiredSecretIsLeftOut(t *testing.T) {
	w := oldWorld(t)
	made := w.create()
	if _, err := w.Rotate(t.Context(), made.ID, keys.Rotation{}, by); err != nil {
		t.Fatal(err)
	}
	w.tamper(made.ID, func(r *store.Record) { r.Secrets[1].Sealed = []byte("x") })
	if got := w.retired(made.ID); got != "[]" {
		t.Errorf("retired are %s", got)
	}
	to := oldWorld(t)
	if done, err := to.Copy(t.Context(), w.backend, by); err != nil || len(done.Copied) != 1 {
		t.Errorf("copied %+v, %v", done, err)
	}
	resealed := w.awaitChange("reseal")
	if err := w.service(ring(t, masterKey(2), masterKey(1))).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := <-resealed; c.Err != nil {
		t.Errorf("sealed again: %v", c.Err)
	}
}

// A retired secret adds no field to the record. To the version before, it is a
// secret that has ended.
func TestRetiredSecretsNeedNoNewField(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	fields := func() string {
		var r struct{ Secrets []map[string]json.RawMessage }
		if err := json.Unmarshal([]byte(w.record(made.ID)), &r); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, s := range r.Secrets {
			for name := range s {
				names[name] = true
			}
		}
		return fmt.Sprint(names)
	}
	if _, err := w.Rotate(t.Context(), made.ID, keys.Rotation{Overlap: day}, by); err != nil {
		t.Fatal(err)
	}
	before := fields()
	if _, err := w.Rotate(t.Context(), made.ID, keys.Rotation{}, by); err != nil {
		t.Fatal(err)
	}
	if after := fields(); after != before {
		t.Errorf("a secret has the fields %s, before %s", after, before)
	}
}

// explains reports whether one of the key's retired secrets has the text.
func explains(t *testing.T, key *auth.Key, secret string) bool {
	t.Helper()
	for _, s := range key.Retired {
		if s.Verify([]byte("x"), auth.NewSecret(1, secret, time.Time{}).Sign([]byte("x"))) {
			return true
		}
	}
	return false
}

func TestRetiredSecretsAreCopied(t *testing.T) {
	from, to := newWorld(t), newWorld(t)
	made, other := from.create(), from.create()
	for _, id := range []string{made.ID, other.ID} {
		if _, err := from.Rotate(t.Context(), id, keys.Rotation{}, by); err != nil {
			t.Fatal(err)
		}
	}
	// One retired secret is in use here by another key, so its key is copied
	// without it.
	if _, err := to.Import(t.Context(), keys.ImportRequest{ID: "legacy", Secret: other.Secret, Fields: acme()}, by); err != nil {
		t.Fatal(err)
	}
	done, err := to.Copy(t.Context(), from.backend, by)
	if err != nil || len(done.Copied) != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	if !explains(t, to.fresh(made.ID), made.Secret) || to.retired(other.ID) != "[]" {
		t.Errorf("retired after the copy: %s and %s", to.retired(made.ID), to.retired(other.ID))
	}
	if _, err := to.Import(t.Context(), keys.ImportRequest{ID: "again", Secret: made.Secret, Fields: acme()}, by); err == nil {
		t.Error("a copied retired secret can be imported")
	}
}

func TestRetiredSecretsAreSealedAgain(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	if _, err := w.Rotate(t.Context(), made.ID, keys.Rotation{}, by); err != nil {
		t.Fatal(err)
	}
	resealed := w.awaitChange("reseal")
	if err := w.service(ring(t, masterKey(2), masterKey(1))).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-resealed
	key, err := w.service(ring(t, masterKey(2))).Fresh(t.Context(), made.ID)
	if err != nil || !explains(t, key, made.Secret) {
		t.Errorf("under the new master key alone: %+v, %v", key, err)
	}
}
