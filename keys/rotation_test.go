package keys_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

func TestMasterKeyIsTested(t *testing.T) {
	w := &world{t: t, backend: &watched{Backend: newBackend(t)}}
	w.now.Store(&epoch)
	first := w.service(ring(t, masterKey(1)))
	if err := first.TestMasterKey(t.Context()); err != nil {
		t.Fatalf("a new store: %v", err)
	}
	if _, err := w.backend.Meta(t.Context(), "id_key"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal("the test wrote something")
	}
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.TestMasterKey(t.Context()); err != nil {
		t.Errorf("the right key: %v", err)
	}
	wrong := w.service(ring(t, masterKey(2)))
	for _, err := range []error{wrong.TestMasterKey(t.Context()), wrong.Start(t.Context())} {
		if !errors.Is(err, keyring.ErrMasterKey) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "does not open this store") {
			t.Errorf("a wrong key: %v", err)
		}
	}
	if _, err := wrong.Lookup(t.Context(), "ck_live_x"); !errors.Is(err, keyring.ErrMasterKey) {
		t.Errorf("looking up under a wrong key: %v", err)
	}
	w.backend.down.Store(true)
	for _, err := range []error{first.TestMasterKey(t.Context()), w.service(ring(t, masterKey(1))).Start(t.Context())} {
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, keyring.ErrMasterKey) {
			t.Errorf("no backend: %v", err)
		}
	}
}

func TestStartWithoutBackendLoadsLater(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	w.backend.down.Store(true)
	late := w.service(ring(t, masterKey(1)))
	if err := late.Start(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Start: %v", err)
	}
	if _, err := late.Lookup(t.Context(), made.ID); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Lookup: %v", err)
	}
	w.backend.down.Store(false)
	if _, err := late.Lookup(t.Context(), made.ID); err != nil {
		t.Errorf("after the backend came back: %v", err)
	}
}

func TestMasterKeyRotation(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	rotated, err := w.Rotate(t.Context(), made.ID, keys.Rotation{Overlap: keys.DefaultOverlap}, by)
	if err != nil {
		t.Fatal(err)
	}
	both := w.service(ring(t, masterKey(2), masterKey(1)))
	resealed := w.awaitChange("reseal")
	if err := both.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := <-resealed; c.KeyID != made.ID || c.Actor != keys.GatewayActor || c.Err != nil {
		t.Errorf("resealed: %+v", c)
	}
	// Without the old master key, ids, secrets and fingerprints still work.
	only := w.service(ring(t, masterKey(2)))
	if err := only.TestMasterKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	key, err := only.Fresh(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.accepts(key, made.Secret, rotated.Secret); !got[0] || !got[1] {
		t.Errorf("accepts the secrets: %v", got)
	}
	if _, err := only.Import(t.Context(), keys.ImportRequest{Fields: acme(), ID: "x", Secret: rotated.Secret}, by); !errors.Is(err, keys.ErrSecretInUse) {
		t.Errorf("import of a secret in use: %v", err)
	}
	outdated := w.service(ring(t, masterKey(1)))
	for _, err := range []error{outdated.TestMasterKey(t.Context()), outdated.Start(t.Context())} {
		if !errors.Is(err, keyring.ErrMasterKey) {
			t.Errorf("the old master key alone: %v, want ErrMasterKey", err)
		}
	}
	next, err := only.Create(t.Context(), keys.CreateRequest{Fields: acme()}, by)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := both.Lookup(t.Context(), next.ID); err != nil {
		t.Errorf("a gateway with both keys: %v", err)
	}
}

// awaitChange returns a channel that receives the first change with the action.
func (w *world) awaitChange(action string) <-chan keys.Change {
	c := make(chan keys.Change, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = func(change keys.Change) {
		if change.Action == action {
			select {
			case c <- change:
			default:
			}
		}
	}
	return c
}
