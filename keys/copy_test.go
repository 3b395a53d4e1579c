package keys_test

import (
	"errors"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
)

func TestCopy(t *testing.T) {
	from, to := newWorld(t), newWorld(t)
	one := from.create()
	two, err := from.Import(t.Context(), keys.ImportRequest{ID: "legacy", Secret: "a secret of old times", Fields: acme()}, by)
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := from.Rotate(t.Context(), one.ID, keys.Rotation{Overlap: time.Hour}, by)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from.Disable(t.Context(), two.ID, by); err != nil {
		t.Fatal(err)
	}
	done, err := to.Copy(t.Context(), from.backend, by)
	if err != nil || len(done.Copied) != 2 || len(done.Skipped) != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	key, err := to.Lookup(t.Context(), one.ID)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("string to sign")
	for i, secret := range []string{rotated.Secret, one.Secret} {
		if !key.Secrets[i].Verify(text, auth.NewSecret(1, secret, time.Time{}).Sign(text)) {
			t.Errorf("secret %d does not verify", i)
		}
	}
	view, err := to.Show(t.Context(), two.ID)
	if err != nil || view.Status != keys.StatusDisabled {
		t.Errorf("%+v, %v", view, err)
	}
	_, err = to.Import(t.Context(), keys.ImportRequest{ID: "again", Secret: "a secret of old times", Fields: acme()}, by)
	if !errors.Is(err, keys.ErrSecretInUse) {
		t.Errorf("a copied secret can be imported again: %v", err)
	}
	again, err := to.Copy(t.Context(), from.backend, by)
	if err != nil || len(again.Copied) != 0 || len(again.Skipped) != 2 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

// A request that the other store accepted must not be accepted here again. So
// requests that were stamped before the copy, or by a clock that is a little
// ahead, are refused as late.
func TestCopyLeavesNoNonceBehind(t *testing.T) {
	from, to := newWorld(t), newWorld(t)
	made := from.create()
	to.Service = keys.New(to.backend, ring(t, masterKey(1)), keys.Options{Clock: to.clock, ReplayFloorAhead: 5 * time.Second})
	if _, err := to.Copy(t.Context(), from.backend, by); err != nil {
		t.Fatal(err)
	}
	key, err := to.Lookup(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	for offset, late := range map[time.Duration]bool{-time.Second: true, 0: true, 5 * time.Second: true, 6 * time.Second: false} {
		request := auth.Request{Credentials: auth.Credentials{Unix: epoch.Add(offset).Unix()}}
		judgement := auth.Judge(&request, key, 5*time.Minute, epoch)
		if judgement.Failed.Has(auth.RuleTimestamp) != late {
			t.Errorf("stamped %s after the copy: %b", offset, judgement.Failed)
		}
	}
}

func TestCopyNeedsTheMasterKey(t *testing.T) {
	from := newWorld(t)
	from.create()
	to := &world{t: t, backend: &watched{Backend: newBackend(t)}}
	to.now.Store(&epoch)
	to.Service = to.service(ring(t, masterKey(2)))
	done, err := to.Copy(t.Context(), from.backend, by)
	if !errors.Is(err, keyring.ErrMasterKey) || len(done.Copied) != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}
