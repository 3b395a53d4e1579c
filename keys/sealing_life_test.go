package keys_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

func (w *world) seal(id string) keys.SealView {
	w.t.Helper()
	view, err := w.Show(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return view.Seal
}

// TestNothingIsSealedBeforeAnOperatorWantsIt: gateways of the version before drop a
// seal when they change a key, so until then there is none.
func TestNothingIsSealedBeforeAnOperatorWantsIt(t *testing.T) {
	w := oldWorld(t)
	id := w.create().ID
	w.fresh(id)
	if got := w.stored(id); got.Seal != nil {
		t.Errorf("sealed: %x", got.Seal)
	}
	first := w.create().ID
	if _, err := w.Seal(t.Context(), first, w.seal(first).Digest, by); err != nil {
		t.Fatal(err)
	}
	for name, service := range map[string]*keys.Service{"this gateway": w.Service, "another": w.service(ring(t, masterKey(1)))} {
		made, err := service.Create(t.Context(), keys.CreateRequest{Fields: acme()}, by)
		if err != nil || made.Seal.State != keys.SealSealed {
			t.Errorf("%s makes a key with the seal %+v, %v", name, made.Seal, err)
		}
	}
	if got := w.seal(id).State; got != keys.SealUnsealed {
		t.Errorf("the key from before is %s", got)
	}
}

// TestChangesDoNotApprove: a change of a record without a seal leaves it without
// one, because it may be forged already. Where a seal is required it is refused.
func TestChangesDoNotApprove(t *testing.T) {
	w := oldWorld(t)
	id := w.create().ID
	w.tamper(id, func(r *store.Record) { r.Scopes = []string{"cards:*"} })
	first := w.create().ID
	if _, err := w.Seal(t.Context(), first, w.seal(first).Digest, by); err != nil {
		t.Fatal(err)
	}
	if changed, err := w.Rotate(t.Context(), id, keys.Rotation{}, by); err != nil || changed.Seal.State != keys.SealUnsealed {
		t.Errorf("rotated: %+v, %v", changed.Seal, err)
	}
	w.fresh(id)
	required := w.service(ring(t, masterKey(1)), sealed)
	w.expectForged(required, id, []string{"seal"})
}

// TestSealApproves: the operator seals what was shown, and nothing else.
func TestSealApproves(t *testing.T) {
	w := newWorld(t, sealed)
	id := w.create().ID
	first := w.seal(id)
	w.tamper(id, func(r *store.Record) { r.Seal, r.Tenant = nil, "other" })
	shown := w.seal(id)
	if shown.State != keys.SealRefused || shown.Digest == "" {
		t.Fatalf("shown as %+v", shown)
	}
	w.tamper(id, func(r *store.Record) { r.Scopes = []string{"cards:*"} })
	for _, digest := range []string{shown.Digest, "", "x"} {
		var invalid *fields.InvalidError
		if _, err := w.Seal(t.Context(), id, digest, by); !errors.Is(err, keys.ErrNotAsApproved) && !errors.As(err, &invalid) {
			t.Errorf("approved another record by the digest %q: %v", digest, err)
		}
	}
	changed, err := w.Seal(t.Context(), id, w.seal(id).Digest, by)
	if err != nil || changed.Seal.State != keys.SealSealed || changed.Seal.DocumentVersion <= first.DocumentVersion {
		t.Fatalf("%+v after %+v, %v", changed.Seal, first, err)
	}
	if key := w.fresh(id); key.Tenant != "other" {
		t.Errorf("the tenant is %s", key.Tenant)
	}
	audited := w.changes[len(w.changes)-1]
	if audited.Action != "seal" || !slices.ContainsFunc(audited.Fields, func(f keys.FieldChange) bool { return f.Field == "tenant" && string(f.New) == `"other"` }) {
		t.Errorf("the audit log has %+v", audited)
	}
}

// TestSealWasSeen: a gateway that has seen a key with a seal does not take its
// record without one, although none is required.
func TestSealWasSeen(t *testing.T) {
	w := oldWorld(t)
	id := w.create().ID
	if _, err := w.Seal(t.Context(), id, w.seal(id).Digest, by); err != nil {
		t.Fatal(err)
	}
	w.fresh(id)
	w.tamper(id, func(r *store.Record) { r.Seal = nil })
	w.expectForged(w.Service, id, []string{"seal"})
}

// TestDeletedKeyStaysDeleted: its last record is not accepted when it is put back,
// neither by the gateway that has deleted the key nor by one that has seen it
// before and after. A key that is imported anew under its id is.
func TestDeletedKeyStaysDeleted(t *testing.T) {
	w := newWorld(t, sealed)
	other := w.service(ring(t, masterKey(1)), sealed)
	imported := keys.ImportRequest{ID: "legacy-1", Secret: "0123456789abcdef", Fields: acme()}
	if _, err := w.Import(t.Context(), imported, by); err != nil {
		t.Fatal(err)
	}
	last := w.stored("legacy-1")
	if _, err := other.Fresh(t.Context(), "legacy-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Delete(t.Context(), "legacy-1", by); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Fresh(t.Context(), "legacy-1"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := w.backend.Backend.Put(t.Context(), last, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, service := range []*keys.Service{w.Service, other} {
		if _, err := service.Fresh(t.Context(), "legacy-1"); !errors.Is(err, keys.ErrForged) {
			t.Errorf("the deleted key is back: %v", err)
		}
	}
	if _, err := w.Delete(t.Context(), "legacy-1", by); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Import(t.Context(), imported, by); err != nil {
		t.Fatal(err)
	}
	for _, service := range []*keys.Service{w.Service, other} {
		if _, err := service.Fresh(t.Context(), "legacy-1"); err != nil {
			t.Errorf("imported again: %v", err)
		}
	}
}

// TestVersionRisesWithEachChange: also within a millisecond, and when the clock goes
// back.
func TestVersionRisesWithEachChange(t *testing.T) {
	w := newWorld(t, sealed)
	made := w.create()
	last := made.Seal.DocumentVersion
	for range 3 {
		changed, err := w.Disable(t.Context(), made.ID, by)
		if err != nil || changed.Seal.DocumentVersion <= last {
			t.Fatalf("version %d after %d, %v", changed.Seal.DocumentVersion, last, err)
		}
		last = changed.Seal.DocumentVersion
		w.pass(-time.Hour)
	}
}

// TestSlowReadIsNotForged: a record that was read before another gateway or request
// has seen a newer one is read again.
func TestSlowReadIsNotForged(t *testing.T) {
	w := newWorld(t, sealed, func(o *keys.Options) {
		o.OnForged = func(e *keys.ForgedError) { t.Error(e) }
	})
	id := w.create().ID
	slow := &slowReads{watched: w.backend}
	seen := keys.NewVersionMemory()
	reader := keys.New(slow, ring(t, masterKey(1)), keys.Options{Clock: w.clock, SealRequired: true, Versions: seen})
	defer reader.Stop()
	writer := keys.New(w.backend, ring(t, masterKey(1)), keys.Options{Clock: w.clock, SealRequired: true, Versions: seen})
	defer writer.Stop()
	if err := reader.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow.after = func() {
		slow.after = nil
		if _, err := writer.Disable(t.Context(), id, by); err != nil {
			t.Error(err)
		}
	}
	if key, err := reader.Fresh(t.Context(), id); err != nil || !key.Disabled {
		t.Errorf("%+v, %v", key, err)
	}
}

// TestMasterKeyRotationSealsAnew: under the new master key, and only what was
// sealed and is not forged.
func TestMasterKeyRotationSealsAnew(t *testing.T) {
	w := oldWorld(t)
	plain, forged, id := w.create().ID, w.create().ID, w.create().ID
	for _, id := range []string{forged, id} {
		if _, err := w.Seal(t.Context(), id, w.seal(id).Digest, by); err != nil {
			t.Fatal(err)
		}
	}
	w.tamper(forged, func(r *store.Record) { r.Tenant = "other" })
	both := w.service(ring(t, masterKey(2), masterKey(1)))
	resealed := make(chan keys.Change, 3)
	w.waiting = func(c keys.Change) { resealed <- c }
	if err := both.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if c := <-resealed; errors.Is(c.Err, keys.ErrForged) != (c.KeyID == forged) {
			t.Errorf("%+v", c)
		}
	}
	renewed := w.service(ring(t, masterKey(2)))
	for id, want := range map[string]string{plain: keys.SealUnsealed, id: keys.SealSealed, forged: keys.SealRefused} {
		if view, err := renewed.Show(t.Context(), id); err != nil || view.Seal.State != want {
			t.Errorf("%s: %+v, %v; want %s", id, view.Seal, err, want)
		}
	}
}

// TestCopyKeepsSeals: a sealed record is sealed there, one without a seal is not,
// and a forged one is skipped.
func TestCopyKeepsSeals(t *testing.T) {
	from := oldWorld(t)
	plain, forged, id := from.create().ID, from.create().ID, from.create().ID
	for _, id := range []string{forged, id} {
		if _, err := from.Seal(t.Context(), id, from.seal(id).Digest, by); err != nil {
			t.Fatal(err)
		}
	}
	from.tamper(forged, func(r *store.Record) { r.Tenant = "other" })
	to := oldWorld(t)
	done, err := to.Copy(t.Context(), from.backend.Backend, by)
	if err != nil || len(done.Copied) != 2 || len(done.Skipped) != 1 || done.Skipped[0].ID != forged {
		t.Fatalf("%+v, %v", done, err)
	}
	if to.seal(plain).State != keys.SealUnsealed || to.seal(id).State != keys.SealSealed {
		t.Errorf("%+v, %+v", to.seal(plain), to.seal(id))
	}
	drilled, err := to.Drill(t.Context())
	if err != nil || drilled.Opened != 2 || drilled.Unsealed != 1 {
		t.Errorf("%+v, %v", drilled, err)
	}
	if drilled, err = from.Drill(t.Context()); err != nil || len(drilled.Failed) != 1 || drilled.Failed[0].ID != forged {
		t.Errorf("%+v, %v", drilled, err)
	}
}

// slowReads is a backend that calls after, once it has read a record.
type slowReads struct {
	*watched
	after func()
}

func (s *slowReads) Get(ctx context.Context, id string) (*store.Record, error) {
	r, err := s.watched.Get(ctx, id)
	if s.after != nil {
		s.after()
	}
	return r, err
}

// damages are reads that find a record which cannot be decoded.
type damages struct {
	*watched
	damaged bool
}

func (d *damages) Get(ctx context.Context, id string) (*store.Record, error) {
	if d.damaged {
		return nil, &store.DamagedError{ID: id, Field: "document", Cause: errors.New("no JSON")}
	}
	return d.watched.Get(ctx, id)
}

// TestDamagedRecordLeavesTheCache: as every record that cannot be used. An outage
// leaves the key there.
func TestDamagedRecordLeavesTheCache(t *testing.T) {
	w := newWorld(t, sealed)
	id := w.create().ID
	backend := &damages{watched: w.backend}
	reader := keys.New(backend, ring(t, masterKey(1)), keys.Options{Clock: w.clock, SealRequired: true})
	defer reader.Stop()
	if err := reader.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Fresh(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.backend.down.Store(true)
	if _, err := reader.Fresh(t.Context(), id); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("during an outage: %v", err)
	}
	if _, err := reader.Lookup(t.Context(), id); err != nil {
		t.Errorf("an outage has taken the key from the cache: %v", err)
	}
	w.backend.down.Store(false)
	backend.damaged = true
	if _, err := reader.Fresh(t.Context(), id); !errors.Is(err, keys.ErrForged) {
		t.Errorf("a damaged record: %v", err)
	}
	if _, err := reader.Lookup(t.Context(), id); !errors.Is(err, keys.ErrForged) {
		t.Errorf("the key of a damaged record is still in the cache: %v", err)
	}
}

// TestDrillWithAnotherMasterKey: nobody is suspected of a forgery because the operator
// has given another key.
func TestDrillWithAnotherMasterKey(t *testing.T) {
	w := oldWorld(t)
	w.create()
	id := w.create().ID
	if _, err := w.Seal(t.Context(), id, w.seal(id).Digest, by); err != nil {
		t.Fatal(err)
	}
	drilled, err := w.service(ring(t, masterKey(2))).Drill(t.Context())
	if err != nil || drilled.Opened != 0 || len(drilled.Failed) != 2 {
		t.Fatalf("%+v, %v", drilled, err)
	}
	for _, failed := range drilled.Failed {
		if failed.Reason != keyring.ErrMasterKey.Error() {
			t.Errorf("%s: %s", failed.ID, failed.Reason)
		}
	}
}
