package keys_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

func sealed(o *keys.Options) { o.SealRequired = true }

// A forgery changes a record as somebody without the master key can. It returns
// the fields of which one must be named.
type forgery func(r, other, older *store.Record) []string

// forgeries are all ways to change a record: each field that grants, parts of
// another key's record, and parts of an older record of the same key.
func forgeries() map[string]forgery {
	moment := epoch.AddDate(5, 0, 0)
	all := map[string]forgery{
		"tenant":      func(r, _, _ *store.Record) []string { r.Tenant = "victim"; return []string{"tenant"} },
		"description": func(r, _, _ *store.Record) []string { r.Description = "x"; return []string{"description"} },
		"scopes":      func(r, _, _ *store.Record) []string { r.Scopes = []string{"*"}; return []string{"scopes"} },
		"split scope": func(r, _, _ *store.Record) []string { r.Scopes = []string{"cards:rea", "d"}; return []string{"scopes"} },
		"any address": func(r, _, _ *store.Record) []string { r.AllowedIPs = nil; return []string{"allowed_ips"} },
		"no end":      func(r, _, _ *store.Record) []string { r.ExpiresAt = time.Time{}; return []string{"expires_at"} },
		"later end":   func(r, _, _ *store.Record) []string { r.ExpiresAt = moment; return []string{"expires_at"} },
		"enabled":     func(r, _, _ *store.Record) []string { r.Disabled = !r.Disabled; return []string{"disabled"} },
		"limit": func(r, _, _ *store.Record) []string {
			r.Limits = limits("total", `"9999/1s"`)
			return []string{"limits"}
		},
		"no limit": func(r, _, _ *store.Record) []string { r.Limits = nil; return []string{"limits"} },
		"variant":  func(r, _, _ *store.Record) []string { r.CustomerVariant = "C"; return []string{"customer_variant"} },
		"debug": func(r, _, _ *store.Record) []string {
			r.DebugUntil = epoch.Add(time.Hour)
			return []string{"debug_until"}
		},
		"imported":   func(r, _, _ *store.Record) []string { r.Imported = !r.Imported; return []string{"imported"} },
		"stamped":    func(r, _, _ *store.Record) []string { r.StampedAfter = moment; return []string{"stamped_after"} },
		"created":    func(r, _, _ *store.Record) []string { r.CreatedAt = moment; return []string{"created_at"} },
		"no secrets": func(r, _, _ *store.Record) []string { r.Secrets = nil; return []string{"secrets"} },
		"living on": func(r, _, _ *store.Record) []string {
			for i := range r.Secrets {
				r.Secrets[i].ExpiresAt = moment
			}
			return []string{"secrets"}
		},
		"old secret":   func(r, _, old *store.Record) []string { r.Secrets = old.Secrets; return []string{"secrets"} },
		"its secret":   func(r, other, _ *store.Record) []string { r.Secrets = other.Secrets; return []string{"secrets"} },
		"its fields":   func(r, other, _ *store.Record) []string { r.Fields = other.Fields; return []string{"description"} },
		"its seal":     func(r, other, _ *store.Record) []string { r.Seal = other.Seal; return []string{"id"} },
		"old seal":     func(r, _, old *store.Record) []string { r.Seal = old.Seal; return []string{"scopes"} },
		"old fields":   func(r, _, old *store.Record) []string { r.Fields = old.Fields; return []string{"scopes"} },
		"no seal":      func(r, _, _ *store.Record) []string { r.Seal = nil; return []string{"seal"} },
		"empty seal":   func(r, _, _ *store.Record) []string { r.Seal = []byte{}; return []string{"seal"} },
		"cut seal":     func(r, _, _ *store.Record) []string { r.Seal = r.Seal[:max(4, len(r.Seal))-4]; return []string{"seal"} },
		"longer seal":  func(r, _, _ *store.Record) []string { r.Seal = append(r.Seal, 0, 0, 0, 0); return []string{"seal"} },
		"whole record": wholeRecord,
		"older record": func(r, _, old *store.Record) []string { *r = *old.Clone(); return []string{"document_version"} },
	}
	for i := range reflect.TypeFor[store.Fields]().NumField() { // the zero value of each
		all["zero "+reflect.TypeFor[store.Fields]().Field(i).Name] = func(r, _, _ *store.Record) []string {
			reflect.ValueOf(&r.Fields).Elem().Field(i).SetZero()
			return nil
		}
	}
	return all
}

// wholeRecord puts the record of another key in the place of this one.
func wholeRecord(r, other, _ *store.Record) []string {
	id := r.ID
	*r = *other.Clone()
	r.ID = id
	return []string{"id"}
}

// forgedWorld makes two sealed keys. It returns the record of the first, an older
// one of the same key, and the record of the second.
func forgedWorld(t testing.TB, w *world) (r, other, older *store.Record) {
	t.Helper()
	first, err := w.Create(t.Context(), keys.CreateRequest{Fields: store.Fields{
		Tenant: "acme", Description: "desk", Scopes: []string{"cards:read", "cards:write"}, AllowedIPs: []string{"192.0.2.1"},
		ExpiresAt: epoch.AddDate(1, 0, 0), Disabled: true, Limits: limits("total", `{"limit": "5/1s"}`), CustomerVariant: "A", DebugUntil: epoch.Add(24 * time.Hour),
	}}, by)
	if err != nil {
		t.Fatal(err)
	}
	older = w.stored(first.ID)
	if _, err := w.Update(t.Context(), first.ID, []byte(`{"scopes":["cards:read"]}`), by); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Rotate(t.Context(), first.ID, keys.Rotation{Overlap: time.Hour}, by); err != nil {
		t.Fatal(err)
	}
	return w.stored(first.ID), w.stored(w.create().ID), older
}

func (w *world) stored(id string) *store.Record {
	w.t.Helper()
	r, err := w.backend.Backend.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// TestForgedRecordsAreRefused: each forgery is refused by the gateway that has seen
// the key, and after a restart, with the name of the field. An older record that is
// whole is one that a gateway has written: it is refused by the gateway that has
// seen a newer one.
func TestForgedRecordsAreRefused(t *testing.T) {
	for name, forge := range forgeries() {
		t.Run(name, func(t *testing.T) {
			var reported []*keys.ForgedError
			w := newWorld(t, sealed, func(o *keys.Options) {
				o.OnForged = func(e *keys.ForgedError) { reported = append(reported, e) }
			})
			r, other, older := forgedWorld(t, w)
			want := forge(r, other, older)
			w.tamper(r.ID, func(stored *store.Record) {
				revision := stored.Revision
				*stored = *r
				stored.Revision = revision
			})
			w.expectForged(w.Service, r.ID, want)
			if len(reported) == 0 || reported[0].KeyID != r.ID {
				t.Errorf("reported %v", reported)
			}
			again := w.service(ring(t, masterKey(1)), sealed)
			if name == "older record" {
				if _, err := again.Fresh(t.Context(), r.ID); err != nil {
					t.Errorf("after a restart nothing is known of a newer record: %v", err)
				}
				return
			}
			w.expectForged(again, r.ID, want)
		})
	}
}

func (w *world) expectForged(service *keys.Service, id string, fields []string) {
	w.t.Helper()
	key, err := service.Fresh(w.t.Context(), id)
	var forged *keys.ForgedError
	if key != nil || !errors.As(err, &forged) || !errors.Is(err, keys.ErrForged) {
		w.t.Fatalf("got %v, %v", key, err)
	}
	if !slices.Contains(keys.ForgedFields(), forged.Field) || forged.KeyID != id || fields != nil && !slices.Contains(fields, forged.Field) {
		w.t.Errorf("%v; want the key %s and one of the fields %q", err, id, fields)
	}
	for name, change := range map[string]func() error{
		"update": func() error {
			_, err := service.Update(w.t.Context(), id, []byte(`{"description":"y"}`), by)
			return err
		},
		"rotate":  func() error { _, err := service.Rotate(w.t.Context(), id, keys.Rotation{}, by); return err },
		"enable":  func() error { _, err := service.Enable(w.t.Context(), id, by); return err },
		"disable": func() error { _, err := service.Disable(w.t.Context(), id, by); return err },
		"unlock":  func() error { _, err := service.Unlock(w.t.Context(), id, by); return err },
	} {
		if err := change(); !errors.Is(err, keys.ErrForged) {
			w.t.Errorf("%s of a forged record: %v", name, err)
		}
	}
	view, err := service.Show(w.t.Context(), id)
	if err != nil || view.Seal.State != keys.SealRefused || view.Status != keys.StatusForged || view.Seal.Field != forged.Field {
		w.t.Errorf("shown as %+v, %v", view.Seal, err)
	}
	census, err := service.Census(w.t.Context())
	if err != nil || census.Seals[keys.SealRefused] != 1 || census.Keys[keys.StatusForged] != 1 {
		w.t.Errorf("counted %v, %v", census.Seals, err)
	}
}

// TestAnyByteOfARecordIsSealed changes any one byte of the sealed part of a stored
// record.
func TestAnyByteOfARecordIsSealed(t *testing.T) {
	w := newWorld(t, sealed)
	original, _, _ := forgedWorld(t, w)
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(original)
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(doc)-1).Draw(t, "at")
		doc[at] = byte(rapid.IntRange(' ', '~').Draw(t, "byte"))
		var forged store.Record
		if json.Unmarshal(doc, &forged) != nil || forged.ID == "" || forged.Revision == "" {
			t.Skip("no backend reads it")
		}
		same := forged.Clone()
		same.Revision, same.UpdatedAt, same.Lock = original.Revision, original.UpdatedAt, original.Lock
		before, _ := json.Marshal(original)
		after, _ := json.Marshal(same)
		equal := string(before) == string(after)
		if err := w.admits(&forged); (err == nil) != equal {
			t.Fatalf("%s: %v", doc, err)
		}
	})
}

// admits returns what a gateway that has just started makes of a record that is
// stored under the id that it has.
func (w *world) admits(r *store.Record) error {
	service := keys.New(only{w.backend, r}, ring(w.t, masterKey(1)), keys.Options{Clock: w.clock, SealRequired: true})
	defer service.Stop()
	view, err := service.Show(w.t.Context(), r.ID)
	if err == nil && view.Seal.State != keys.SealSealed {
		err = fmt.Errorf("%s: %s", view.Seal.Field, view.Seal.Problem)
	}
	return err
}

// TestWhatRequestsWriteIsNotSealed: locks, counts, revisions and times of use
// change without a gateway that has the master key.
func TestWhatRequestsWriteIsNotSealed(t *testing.T) {
	w := newWorld(t, sealed)
	id := w.create().ID
	w.tamper(id, func(r *store.Record) {
		r.Lock = &auth.Lock{At: epoch, Failures: 50}
		r.UpdatedAt = epoch.Add(time.Hour)
	})
	if key := w.fresh(id); key.Lock == nil {
		t.Error("the lock is not seen")
	}
	if _, err := w.Unlock(t.Context(), id, by); err != nil {
		t.Error(err)
	}
	w.fresh(id)
}

// TestDebugIsNotProlonged: the end of debugging is sealed as it counts, so that a
// later updated_at, which is not sealed, does not move it.
func TestDebugIsNotProlonged(t *testing.T) {
	w := newWorld(t, sealed)
	made, err := w.Create(t.Context(), keys.CreateRequest{Fields: store.Fields{Tenant: "a", Scopes: []string{"*"}, DebugUntil: epoch.Add(time.Hour)}}, by)
	if err != nil {
		t.Fatal(err)
	}
	w.tamper(made.ID, func(r *store.Record) { r.UpdatedAt = epoch.AddDate(1, 0, 0) })
	if key := w.fresh(made.ID); !key.DebugUntil.Equal(epoch.Add(time.Hour)) {
		t.Errorf("debugging until %s", key.DebugUntil)
	}
}

// only is a backend that has one record.
type only struct {
	store.Backend
	record *store.Record
}

func (o only) Get(context.Context, string) (*store.Record, error) { return o.record.Clone(), nil }
