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
	if lists := w.reads(func() { recount(t, w.Service) }); lists != 1 || !meanwhile {
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

// Of two gateways that find at the same time that a count is due, one counts.
func TestTwoClaimsAtOnce(t *testing.T) {
	w := newWorld(t)
	other := w.service(ring(t, masterKey(1)))
	begin(t, other)
	w.create()
	w.pass(30 * time.Second)
	once := false
	w.backend.before = func(call string) {
		if call == "DeleteMeta" && !once {
			once = true
			recount(t, other)
		}
	}
	var c keys.Census
	if lists := w.reads(func() { c = recount(t, w.Service) }); lists != 1 || !once || c.Keys[keys.StatusActive] != 1 {
		t.Errorf("%d lists, %+v", lists, c)
	}
}

// replaceCount puts another value in place of the shared count.
func (w *world) replaceCount(value []byte) []byte {
	w.t.Helper()
	raw := w.backend.Backend
	before, err := raw.Meta(w.t.Context(), "census")
	if err == nil {
		err = raw.DeleteMeta(w.t.Context(), "census", before)
	}
	if err == nil {
		_, err = raw.PutMeta(w.t.Context(), "census", value)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return before
}

// The shared count is sealed. A forged one is not taken over, and neither is an older one
// that is put back, so a record that a gateway has found forged stays counted.
func TestSharedCountCannotBeForged(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	other := w.service(ring(t, masterKey(1)))
	begin(t, other)
	forged := []byte(`{"keys":{"active":10000},"seals":{"sealed":10000},"at":"2030-01-01T00:00:00Z","next":"2030-01-01T00:00:00Z"}`)
	honest := w.replaceCount(forged)
	w.tamper(id, func(r *store.Record) { r.Tenant = "other" })
	w.pass(30 * time.Second)
	for i, put := range [][]byte{forged, honest, forged, honest} {
		w.backend.before = func(call string) {
			if i > 1 && call == "DeleteMeta" { // each time just before the gateway writes
				w.replaceCount(put)
			}
		}
		w.replaceCount(put)
		c := recount(t, other)
		if c.Seals[keys.SealRefused] != 1 || c.Keys["active"] > 1 {
			t.Errorf("%d: %+v", i, c)
		}
		w.pass(30 * time.Second)
	}
}

// Each gateway reads all keys by itself after ten pauses, whoever has counted meanwhile:
// so it learns what is not in the feed of changes.
func TestEachGatewayReadsAllKeys(t *testing.T) {
	w := newWorld(t)
	other := w.service(ring(t, masterKey(1)))
	begin(t, other)
	for turn := range 20 {
		w.pass(30 * time.Second)
		recount(t, w.Service)
		if lists := w.reads(func() { recount(t, other) }); (lists > 0) != (turn%10 == 9) {
			t.Errorf("turn %d: %d lists", turn, lists)
		}
	}
}

// Of many keys the status has the last count, with its time, and few it counts. The
// secrets are shown by the lines of this gateway's master keys.
func TestStatusOfManyKeys(t *testing.T) {
	w := newWorld(t)
	other := w.service(ring(t, masterKey(2), masterKey(1)))
	begin(t, other)
	if s := other.Status(t.Context()); s.CountedAt != nil || s.Keys["active"] != 0 {
		t.Errorf("%+v", s)
	}
	mine := ring(t, masterKey(1))
	text, err := json.Marshal(map[string]any{
		"keys": map[string]int{"active": 10_000}, "seals": map[string]int{"sealed": 10_000}, "at": epoch.Add(time.Second), "next": epoch.Add(time.Hour),
		"sealed_by": []map[string]any{{"tag": mine.Tag(0), "secrets": 3}, {"secrets": 4}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.replaceCount(mine.Seal(text, "census"))
	w.pass(30 * time.Second)
	if lists := w.reads(func() { recount(t, other) }); lists != 0 {
		t.Errorf("%d lists", lists)
	}
	s := other.Status(t.Context())
	if s.CountedAt == nil || !s.CountedAt.Equal(epoch.Add(time.Second)) || s.Keys["active"] != 10_000 {
		t.Errorf("%+v", s)
	}
	if len(s.SealedBy) != 3 || s.SealedBy[0].Secrets != 0 || s.SealedBy[1].Secrets != 3 || s.SealedBy[2].Secrets != 4 {
		t.Errorf("%+v", s.SealedBy)
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
