package keys_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// TestNewStoreTakesNoForgery draws what somebody without the master key may write to a
// store that this version has made: parts of all records that gateways have written,
// under any id, changed at will, with any of their seals, a damaged one or none. With no
// configuration, a gateway that has just started accepts only what a gateway has written
// for this key, and one that knows the key only the newest of that.
func TestNewStoreTakesNoForgery(t *testing.T) {
	seen := keys.NewVersionMemory()
	w := newWorld(t, func(o *keys.Options) { o.Versions = seen })
	newest, other, older := forgedWorld(t, w)
	written, all := []*store.Record{newest, other, older}, forgeries()
	names := slices.Sorted(maps.Keys(all))
	rapid.Check(t, func(t *rapid.T) {
		draw := func() *store.Record { return rapid.SampledFrom(written).Draw(t, "record").Clone() }
		forged := draw()
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			all[rapid.SampledFrom(names).Draw(t, "change")](forged, draw(), draw())
		}
		forged.ID = rapid.SampledFrom([]string{forged.ID, newest.ID, other.ID, "ck_live_invented"}).Draw(t, "id")
		if at := rapid.IntRange(-500, len(forged.Seal)-1).Draw(t, "at"); at >= 0 {
			forged.Seal[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		}
		for _, versions := range []*keys.VersionMemory{seen, nil} {
			service := keys.New(only{w.backend, forged}, ring(w.t, masterKey(1)), keys.Options{Clock: w.clock, Versions: versions})
			key, err := service.Fresh(w.t.Context(), forged.ID)
			same := func(r *store.Record) bool {
				return keyring.Digest(r) == keyring.Digest(forged) && bytes.Equal(r.Seal, forged.Seal) && (versions == nil || r != older)
			}
			if ours := slices.ContainsFunc(written, same); ours != (err == nil) || ours != (key != nil) {
				t.Fatalf("knows the key: %t: %+v, %v; a gateway has written it: %t", versions != nil, forged, err, ours)
			}
		}
	})
}

// unsealed changes the stored record of a key as somebody can who has no master key.
func (w *world) unsealed(id string) {
	w.tamper(id, func(r *store.Record) { r.Seal, r.Scopes = nil, []string{"*"} })
}

// A store that has lost its id key, or whose id key somebody has deleted, is not one of
// the version before.
func TestLostIDKeyUnsealsNothing(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	w.unsealed(id)
	w.loseIDKey()
	again := w.service(ring(t, masterKey(1)))
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expectForged(again, id, []string{"seal"})
}

func (w *world) loseIDKey() {
	w.t.Helper()
	value, err := w.backend.Meta(w.t.Context(), "id_key")
	if err == nil {
		err = w.backend.DeleteMeta(w.t.Context(), "id_key", value)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// A store of the version before that was emptied is used on as it was: the keys that are
// made then have no seal, and work after a restart.
func TestEmptiedOldStoreStaysOld(t *testing.T) {
	w := oldWorld(t)
	w.loseIDKey()
	made := w.create()
	if _, err := w.service(ring(t, masterKey(1))).Lookup(t.Context(), made.ID); err != nil || made.Seal.State != keys.SealUnsealed {
		t.Errorf("%+v, %v", made.Seal, err)
	}
}

// Version 0.1 opens the value id_key, takes 32 bytes, and does not start with others. It
// would drop the seals.
func TestVersionBeforeCannotUseANewStore(t *testing.T) {
	w := newWorld(t)
	value, err := w.backend.Meta(t.Context(), "id_key")
	if err != nil {
		t.Fatal(err)
	}
	if raw, _, err := ring(t, masterKey(1)).Open(value, "id_key"); err != nil || len(raw) == 32 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

// So does this version with a form that it does not know.
func TestUnknownFormOfTheIDKey(t *testing.T) {
	for name, raw := range map[string][]byte{"shorter": make([]byte, 31), "longer": make([]byte, 34), "another mark": append(make([]byte, 32), 2)} {
		backend := newBackend(t)
		if _, err := backend.PutMeta(t.Context(), "id_key", ring(t, masterKey(1)).Seal(raw, "id_key")); err != nil {
			t.Fatal(err)
		}
		err := keys.New(backend, ring(t, masterKey(1)), keys.Options{}).Start(t.Context())
		if !errors.Is(err, keyring.ErrDamaged) || !strings.Contains(err.Error(), "made by a newer one?") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A store stays sealed when its master key is rotated.
func TestRotationKeepsTheStoreSealed(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	resealed := w.awaitChange("reseal")
	if err := w.service(ring(t, masterKey(2), masterKey(1))).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-resealed
	w.unsealed(id)
	w.expectForged(w.service(ring(t, masterKey(2))), id, []string{"seal"})
}

// A copy gives a record no seal that nobody has approved, and takes no forged one from a
// store that is sealed. A drill of that one fails.
func TestCopyApprovesNothing(t *testing.T) {
	old, from, lost := oldWorld(t), newWorld(t), newWorld(t)
	plain, forged, forgedToo := old.create().ID, from.create().ID, lost.create().ID
	from.unsealed(forged)
	lost.unsealed(forgedToo)
	lost.loseIDKey()
	for name, c := range map[string]struct {
		from, to *world
		id, want string
	}{
		"unsealed": {old, newWorld(t), plain, "card-keys seal"},
		"forged":   {from, oldWorld(t), forged, keys.ErrForged.Error()},
		"lost":     {lost, oldWorld(t), forgedToo, keys.ErrForged.Error()},
	} {
		done, err := c.to.Copy(t.Context(), c.from.backend, by)
		if err != nil || len(done.Copied) > 0 || len(done.Skipped) != 1 || done.Skipped[0].ID != c.id || !strings.Contains(done.Skipped[0].Reason, c.want) {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
	if drilled, err := from.Drill(t.Context()); err != nil || drilled.Opened != 0 || len(drilled.Failed) != 1 {
		t.Errorf("a drill: %+v, %v", drilled, err)
	}
}

// What an operator has approved gets the seal that it needs.
func TestRestoreSeals(t *testing.T) {
	w, backup, id := backedUp(t)
	r := w.stored(id)
	r.Seal, r.Revision = nil, keys.NewRevision()
	if _, err := backup.Put(t.Context(), r, store.PutOptions{Expect: w.stored(id).Revision}); err != nil {
		t.Fatal(err)
	}
	w.unsealed(id)
	shown, err := w.Restorable(t.Context(), id, backup)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := w.Restore(t.Context(), id, keys.Restoring{From: backup, Digest: shown.Seal.Digest}, by)
	if err != nil || changed.Seal.State != keys.SealSealed {
		t.Errorf("%+v, %v", changed, err)
	}
	w.fresh(id)
}
