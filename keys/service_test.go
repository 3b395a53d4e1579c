package keys_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

func TestCreatedKeyIsFound(t *testing.T) {
	w := newWorld(t)
	fields := store.Fields{
		Tenant: "acme", Description: "back office", Scopes: []string{"cards:*", "customers:read"},
		AllowedIPs: []string{"192.0.2.0/24", "::ffff:198.51.100.7"}, ExpiresAt: epoch.Add(time.Hour),
		Limits:          map[string]json.RawMessage{"issue_card": json.RawMessage(`"60/1m burst 10"`)},
		CustomerVariant: "B",
	}
	made, err := w.Create(t.Context(), keys.CreateRequest{Fields: fields, Mode: keyid.Test}, by)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(made.ID, "ck_test_") || made.Mode != keyid.Test || made.Status != keys.StatusActive || len(made.Secret) < 43 {
		t.Errorf("made %+v", made.View)
	}
	key := w.lookup(made.ID)
	if key.ID != made.ID || key.Revision != made.Revision || key.Tenant != "acme" ||
		!key.ExpiresAt.Equal(fields.ExpiresAt) || key.CustomerVariant != "B" || len(key.AllowedIPs) != 2 || len(key.Limits) != 1 {
		t.Errorf("found %+v", key)
	}
	if !key.Scopes.Has("cards:write") || key.Scopes.Has("cards:sensitive") || key.Scopes.Has("webhooks:read") {
		t.Errorf("scopes %s", key.Scopes)
	}
	if got := w.accepts(key, made.Secret, made.Secret+"x"); !got[0] || got[1] {
		t.Errorf("accepts its secret and another: %v", got)
	}
	if strings.Contains(w.record(made.ID), made.Secret) {
		t.Error("the record holds the secret in clear")
	}
	other := w.service(ring(t, masterKey(1)))
	if _, err := other.Lookup(t.Context(), made.ID); err != nil {
		t.Errorf("another gateway does not find it: %v", err)
	}
}

func TestLookupHitCostsNothing(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	w.lookup(id)
	w.backend.gets.Store(0)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := w.Lookup(ctx, id); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := w.backend.gets.Load(); n != 0 {
		t.Errorf("%d reads", n)
	}
}

func TestConcurrentMissesAreOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.create().ID
		gate := make(chan struct{})
		w.backend.gets.Store(0)
		w.backend.before = func(string) { <-gate }
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				ctx := t.Context()
				if i == 0 {
					ctx = first
				}
				if _, err := w.Lookup(ctx, id); err != nil && i > 0 {
					t.Errorf("look-up %d: %v", i, err)
				}
			})
		}
		synctest.Wait()
		leave() // one client going away must not fail the others
		synctest.Wait()
		close(gate)
		wg.Wait()
		if n := w.backend.gets.Load(); n != 1 {
			t.Errorf("%d reads, want 1", n)
		}
	})
}

func TestInventedIDsAreBounded(t *testing.T) {
	w := newWorld(t, func(o *keys.Options) { o.LookupRate, o.LookupBurst = 1, 2 })
	gone := w.create().ID
	if _, err := w.Delete(t.Context(), gone, by); err != nil {
		t.Fatal(err)
	}
	w.backend.gets.Store(0)
	step := func(id string, want error, reads int64) {
		t.Helper()
		before := w.backend.gets.Load()
		if _, err := w.Lookup(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", id, err, want)
		}
		if n := w.backend.gets.Load() - before; n != reads {
			t.Errorf("%q: %d reads, want %d", id, n, reads)
		}
	}
	for _, id := range []string{"", ".", "..", "a b", "a/b", "{a}", "a\n", "é", strings.Repeat("a", 129)} {
		step(id, store.ErrNotFound, 0)
	}
	step("legacy-1", store.ErrNotFound, 1)
	step("ck_live_"+strings.Repeat("a", 32), store.ErrNotFound, 0) // a wrong checksum
	step("ck_live_"+strings.Repeat("a", 31)+"1", store.ErrNotFound, 1)
	step("legacy-2", keys.ErrLookupBudget, 0)
	step(gone, store.ErrNotFound, 1) // has our checksum, so it may exist
	w.pass(time.Second)
	step("legacy-3", store.ErrNotFound, 1)
	step("legacy-4", keys.ErrLookupBudget, 0)
}

func TestFreshSeesEveryChange(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	other := w.service(ring(t, masterKey(1)))
	cached := w.lookup(id)
	if _, err := other.Disable(t.Context(), id, by); err != nil {
		t.Fatal(err)
	}
	if key := w.lookup(id); key != cached {
		t.Fatal("Lookup read the backend although it had the key")
	}
	if key := w.fresh(id); !key.Disabled || key.Revision == cached.Revision {
		t.Errorf("Fresh gave %+v", key)
	}
	if key := w.lookup(id); !key.Disabled {
		t.Error("Lookup still gives what Fresh replaced")
	}
	if _, err := other.Delete(t.Context(), id, by); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Fresh(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after deletion: %v", err)
	}
	if _, err := w.Lookup(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after deletion, from memory: %v", err)
	}
}

func TestChangeHereHoldsForTheNextLookup(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	w.lookup(made.ID)
	if _, err := w.Disable(t.Context(), made.ID, by); err != nil {
		t.Fatal(err)
	}
	if !w.lookup(made.ID).Disabled {
		t.Error("still enabled")
	}
}

func TestCacheIsBounded(t *testing.T) {
	w := newWorld(t, func(o *keys.Options) { o.CacheSize = 64 })
	var ids []string
	for range 130 {
		ids = append(ids, w.create().ID)
	}
	for _, id := range ids {
		w.lookup(id)
	}
	w.backend.gets.Store(0)
	for _, id := range ids {
		w.lookup(id)
	}
	if n := w.backend.gets.Load(); n < 130-64 {
		t.Errorf("%d of 130 keys are kept, want 64 at most", 130-n)
	}
}

func TestDamagedRecordIsNeverAKey(t *testing.T) {
	tests := []struct {
		name   string
		damage func(r, other *store.Record)
		want   error
	}{
		{"secret of another key", func(r, other *store.Record) { r.Secrets[0].Sealed = other.Secrets[0].Sealed }, keyring.ErrDamaged},
		{"secret of another version", func(r, _ *store.Record) { r.Secrets[0].Version = 2 }, keyring.ErrDamaged},
		{"bit flipped", func(r, _ *store.Record) {
			r.Secrets[0].Sealed = slices.Clone(r.Secrets[0].Sealed)
			r.Secrets[0].Sealed[30] ^= 1
		}, keyring.ErrDamaged},
		{"secret lost", func(r, _ *store.Record) { r.Secrets[0].Sealed = nil }, keyring.ErrDamaged},
		{"other master key", func(r, _ *store.Record) { r.Secrets[0].Sealed = ring(t, masterKey(9)).Seal([]byte("x"), "x") }, keyring.ErrMasterKey},
		{"no scopes", func(r, _ *store.Record) { r.Scopes = []string{"not a scope"} }, keyring.ErrDamaged},
		{"empty whitelist", func(r, _ *store.Record) { r.AllowedIPs = []string{"nowhere"} }, keyring.ErrDamaged},
		{"bad limit", func(r, _ *store.Record) { r.Limits = map[string]json.RawMessage{"total": json.RawMessage(`"many"`)} }, keyring.ErrDamaged},
		{"bad variant", func(r, _ *store.Record) { r.CustomerVariant = "D" }, keyring.ErrDamaged},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := oldWorld(t)
			made, second := w.create(), w.create()
			other, err := w.backend.Backend.Get(t.Context(), second.ID)
			if err != nil {
				t.Fatal(err)
			}
			w.lookup(made.ID)
			w.tamper(made.ID, func(r *store.Record) { test.damage(r, other) })
			if _, err := w.Fresh(t.Context(), made.ID); !errors.Is(err, test.want) {
				t.Errorf("Fresh: %v, want %v", err, test.want)
			}
			if _, err := w.Lookup(t.Context(), made.ID); !errors.Is(err, test.want) {
				t.Errorf("Lookup afterwards: %v, want %v", err, test.want)
			}
		})
	}
}

func TestUnavailableBackendIsNoVerdict(t *testing.T) {
	w := newWorld(t)
	known, unknown := w.create().ID, w.create().ID
	w.lookup(known)
	w.backend.down.Store(true)
	if _, err := w.Lookup(t.Context(), known); err != nil {
		t.Errorf("a key in memory: %v", err)
	}
	for _, id := range []string{unknown, "legacy"} {
		if _, err := w.Lookup(t.Context(), id); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", id, err)
		}
	}
	if _, err := w.Fresh(t.Context(), known); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Fresh: %v, want ErrUnavailable", err)
	}
}
