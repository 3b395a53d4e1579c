package keys_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
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

// flaky is a backend whose writes of records are answered in time by turns.
type flaky struct {
	store.Backend
	answers func(put int) bool
	puts    int
}

func (f *flaky) Put(ctx context.Context, r *store.Record, opt store.PutOptions) (store.Durability, error) {
	f.puts++
	if !f.answers(f.puts) {
		return store.Durability{}, store.ErrUnavailable
	}
	return f.Backend.Put(ctx, r, opt)
}

// A copy goes on when the store does not answer for one key, names what is missing, and
// copies that the next time. It ends when the store is down.
func TestCopyGoesOn(t *testing.T) {
	from, to := newWorld(t), newWorld(t)
	const all = 12
	for range all {
		from.create()
	}
	copyBy := func(answers func(put int) bool) (keys.Copy, error) {
		service := keys.New(&flaky{Backend: to.backend, answers: answers}, ring(t, masterKey(1)), keys.Options{Clock: to.clock})
		t.Cleanup(service.Stop)
		return service.Copy(t.Context(), from.backend, by)
	}
	if done, err := copyBy(func(int) bool { return false }); !errors.Is(err, store.ErrUnavailable) || len(done.Copied) != 0 {
		t.Errorf("a store that is down: %+v, %v", done, err)
	}
	done, err := copyBy(func(put int) bool { return put%3 != 0 })
	if err != nil || len(done.Copied) != all-all/3 || len(done.Skipped) != all/3 || done.Skipped[0].Exists {
		t.Fatalf("%+v, %v", done, err)
	}
	rest, err := copyBy(func(int) bool { return true })
	if err != nil || len(rest.Copied) != all/3 || len(rest.Skipped) != all-all/3 || !rest.Skipped[0].Exists {
		t.Errorf("what was missing: %+v, %v", rest, err)
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
