package keys_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// reads returns how many times the function lists records.
func (w *world) reads(do func()) int64 {
	w.t.Helper()
	w.backend.lists.Store(0)
	do()
	return w.backend.lists.Load()
}

func recount(t testing.TB, k *keys.Service) keys.Census {
	t.Helper()
	if err := k.Recount(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k.Counted()
}

// Each gateway reads all keys when it starts. After that, one of them counts for all: the
// first that finds the count outdated. Both have its numbers.
func TestOneGatewayCountsForAll(t *testing.T) {
	w := newWorld(t)
	other := w.service(ring(t, masterKey(1)))
	begin(t, other)
	gateways := []*keys.Service{w.Service, other}
	for round := range 4 {
		w.create()
		w.pass(30 * time.Second)
		var c [2]keys.Census
		if lists := w.reads(func() {
			for turn := range 6 {
				at := (round + turn) % 2
				c[at] = recount(t, gateways[at])
				w.pass(time.Second)
			}
		}); lists != 1 {
			t.Errorf("round %d: %d lists, want 1", round, lists)
		}
		for _, counted := range c {
			if n := counted.Keys[keys.StatusActive]; n != round+1 {
				t.Errorf("round %d: %d keys", round, n)
			}
		}
	}
}

// While one gateway counts, the others do not begin, and show the count before. A second
// after it has counted they show that.
func TestCountIsClaimed(t *testing.T) {
	w := newWorld(t)
	other := w.service(ring(t, masterKey(1)))
	begin(t, other)
	w.create()
	w.pass(30 * time.Second)
	meanwhile := false
	w.backend.before = func(call string) {
		if call == "List" && !meanwhile {
			meanwhile = true
			if c := recount(t, other); c.Keys[keys.StatusActive] != 0 {
				t.Errorf("%+v", c)
			}
		}
	}
	if lists := w.reads(func() {
		recount(t, w.Service) // takes over the other's first count
		recount(t, w.Service)
	}); lists != 1 || !meanwhile {
		t.Errorf("%d lists", lists)
	}
	if lists := w.reads(func() {
		if c := recount(t, other); c.Keys[keys.StatusActive] != 1 {
			t.Errorf("%+v", c)
		}
	}); lists != 0 {
		t.Errorf("%d lists", lists)
	}
}

// Whoever can write to the store can change the shared count. It adds no name, it is
// only shown, and each gateway reads all keys by itself after at most ten pauses.
func TestSharedCountIsOnlyShown(t *testing.T) {
	w := newWorld(t)
	w.create()
	var refused []string
	other := w.service(ring(t, masterKey(1)), func(o *keys.Options) {
		o.OnForged = func(e *keys.ForgedError) { refused = append(refused, e.Field) }
	})
	begin(t, other)
	honest, err := w.backend.Meta(t.Context(), "census")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.backend.DeleteMeta(t.Context(), "census", honest); err != nil {
		t.Fatal(err)
	}
	forged, err := json.Marshal(map[string]any{
		"keys": map[string]int{"active": 10_000, "invented": 1}, "seals": map[string]int{"sealed": 10_000, "invented": 1}, "expiring": nil,
		"sealed_by": []map[string]any{{"tag": "unknown", "secrets": 3}}, "at": epoch, "next": epoch.Add(1000 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.backend.PutMeta(t.Context(), "census", forged); err != nil {
		t.Fatal(err)
	}
	w.tamper(w.create().ID, func(r *store.Record) { r.Tenant = "other" })
	w.pass(30 * time.Second)
	c := recount(t, other)
	if c.Keys["active"] != 10_000 || len(c.Keys) != len(keys.Statuses()) || len(c.Seals) != len(keys.SealStates()) || len(c.Expiring) != 3 || len(c.SealedBy) != 2 || c.SealedBy[1].Secrets != 3 {
		t.Errorf("%+v", c)
	}
	if s := other.Status(t.Context()); s.CountedAt == nil || !s.CountedAt.Equal(epoch) || s.Keys["active"] != 10_000 {
		t.Errorf("many keys are not counted for each who asks: %+v", s)
	}
	w.pass(5 * time.Minute)
	if c = recount(t, other); c.Keys["active"] != 2 || c.Seals[keys.SealRefused] != 1 || len(refused) == 0 {
		t.Errorf("%+v, forged: %v", c, refused)
	}
	if s := other.Status(t.Context()); s.CountedAt != nil || s.Keys["active"] != 2 {
		t.Errorf("few keys are counted for each who asks: %+v", s)
	}
}

// What one gateway has changed or deleted, the others know a second later, without
// reading all keys: an older copy that is put back is refused.
func TestChangesReachOtherGateways(t *testing.T) {
	w := newWorld(t)
	changed, deleted := w.create().ID, w.create().ID
	old := []*store.Record{w.stored(changed), w.stored(deleted)}
	other := w.service(ring(t, masterKey(1)))
	begin(t, other)
	if _, err := w.Disable(t.Context(), changed, by); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Delete(t.Context(), deleted, by); err != nil {
		t.Fatal(err)
	}
	if lists := w.reads(func() {
		if err := other.FollowChanges(t.Context()); err != nil {
			t.Fatal(err)
		}
	}); lists != 0 {
		t.Errorf("%d lists", lists)
	}
	w.tamper(changed, func(r *store.Record) { *r = *old[0] })
	if _, err := w.backend.Backend.Put(t.Context(), old[1], store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{changed, deleted} {
		if _, err := other.Fresh(t.Context(), id); !errors.Is(err, keys.ErrForged) {
			t.Errorf("an older copy of %s: %v", id, err)
		}
	}
}

// A change that is no longer in the feed when a gateway reads it is found by reading all
// keys, once.
func TestGapIsReadFromAllKeys(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	old := w.stored(id)
	other := w.service(ring(t, masterKey(1)))
	begin(t, other)
	if _, err := w.Disable(t.Context(), id, by); err != nil {
		t.Fatal(err)
	}
	w.backend.forget()
	if lists := w.reads(func() {
		for range 3 {
			if err := other.FollowChanges(t.Context()); err != nil {
				t.Fatal(err)
			}
			recount(t, other)
		}
	}); lists != 1 {
		t.Errorf("%d lists, want 1", lists)
	}
	w.tamper(id, func(r *store.Record) { *r = *old })
	if _, err := other.Fresh(t.Context(), id); !errors.Is(err, keys.ErrForged) {
		t.Errorf("an older copy: %v", err)
	}
}
