package keys_test

import (
	"errors"
	"testing"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// backedUp returns a world with a sealed key, and a backup of it.
func backedUp(t *testing.T) (w *world, backup store.Backend, id string) {
	t.Helper()
	w, backup = newWorld(t), newBackend(t)
	id = w.create().ID
	if _, err := backup.Put(t.Context(), w.stored(id), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	return w, backup, id
}

// A record that is lost is put back once it is approved as it is in the backup, and
// later changes of it are shown to be missing.
func TestRestore(t *testing.T) {
	w, backup, id := backedUp(t)
	if _, err := w.Disable(t.Context(), id, by); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Restorable(t.Context(), id, backup); !errors.Is(err, store.ErrExists) {
		t.Errorf("a record that is right: %v, want ErrExists", err)
	}
	if _, err := w.backend.Backend.Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	shown, err := w.Restorable(t.Context(), id, backup)
	if err != nil || shown.Seal.Digest == "" || shown.Seal.Field != "document_version" {
		t.Fatalf("%+v, %v; want a digest, and that the record is older than one that was seen", shown, err)
	}
	if _, err := w.Restore(t.Context(), id, keys.Restoring{From: backup, Digest: "x"}, by); !errors.Is(err, keys.ErrNotAsApproved) {
		t.Errorf("not as approved: %v", err)
	}
	changed, err := w.Restore(t.Context(), id, keys.Restoring{From: backup, Digest: shown.Seal.Digest}, by)
	if err != nil || changed.Seal.State != keys.SealSealed || changed.Seal.DocumentVersion <= shown.Seal.DocumentVersion {
		t.Fatalf("%+v, %v; want a sealed record with a newer version", changed, err)
	}
	w.fresh(id)
}

// A key comes only from a backup of the same store, and only as a gateway has written it.
func TestRestoreRefuses(t *testing.T) {
	w, backup, id := backedUp(t)
	if _, err := w.backend.Backend.Delete(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	other := newWorld(t)
	foreign := other.create().ID
	var invalid *fields.InvalidError
	if _, err := w.Restorable(t.Context(), foreign, other.backend); !errors.As(err, &invalid) {
		t.Errorf("another store: %v, want an InvalidError", err)
	}
	if _, err := w.Restorable(t.Context(), "ck_live_none", backup); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a key that the backup has not: %v", err)
	}
	forged, err := backup.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	before := forged.Revision
	forged.Tenant, forged.Revision = "victim", keys.NewRevision()
	if _, err := backup.Put(t.Context(), forged, store.PutOptions{Expect: before}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Restorable(t.Context(), id, backup); !errors.Is(err, keys.ErrForged) {
		t.Errorf("a forged backup: %v", err)
	}
}

// A record that is sealed under a master key which this gateway lacks may be right.
func TestRestoreWantsTheMasterKey(t *testing.T) {
	w, backup, id := backedUp(t)
	next := w.service(ring(t, masterKey(2), masterKey(1)))
	if _, err := next.Update(t.Context(), id, []byte(`{"scopes":["cards:read"]}`), by); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Restorable(t.Context(), id, backup); !errors.Is(err, keyring.ErrMasterKey) {
		t.Errorf("%v, want ErrMasterKey", err)
	}
}
