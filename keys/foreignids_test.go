package keys_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/store"
)

// flooded returns another gateway on the store. It has just started, and its
// budget for look-ups of unknown ids is spent.
func (w *world) flooded() *keys.Service {
	w.t.Helper()
	k := w.service(ring(w.t, masterKey(1)), func(o *keys.Options) { o.LookupRate, o.LookupBurst = 1e-9, 10 })
	begin(w.t, k)
	for i := 0; ; i++ {
		switch _, err := k.Lookup(w.t.Context(), fmt.Sprintf("invented-%d", i)); {
		case errors.Is(err, keys.ErrLookupBudget):
			return k
		case !errors.Is(err, store.ErrNotFound):
			w.t.Fatal(err)
		}
	}
}

func (w *world) imports(k *keys.Service, id string) {
	w.t.Helper()
	if _, err := k.Import(w.t.Context(), keys.ImportRequest{ID: id, Secret: "the secret of " + id, Fields: acme()}, by); err != nil {
		w.t.Fatal(err)
	}
}

// finds fails the test unless the look-up of each id returns the error want.
func finds(t *testing.T, k *keys.Service, want error, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := k.Lookup(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
}

// The ids of customers are found although strangers have spent the budget:
// after a start, after another gateway has imported them, and after a copy.
func TestKnownIDsShareNoBudget(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("legacy-%d", i))
		w.imports(w.Service, ids[i])
	}
	after := w.flooded()
	finds(t, after, nil, ids...)

	w.imports(w.Service, "late")
	finds(t, after, keys.ErrLookupBudget, "late")
	if err := after.FollowChanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	finds(t, after, nil, "late")
	w.imports(after, "own")
	finds(t, after, nil, "own")

	other := newWorld(t)
	copied := other.create().ID
	other.imports(other.Service, "from")
	if _, err := w.Copy(t.Context(), other.backend, by); err != nil {
		t.Fatal(err)
	}
	if err := after.FollowChanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	finds(t, after, nil, copied, "from")
	finds(t, w.flooded(), nil, append(ids, copied, "from", "late", "own")...)
	finds(t, after, keys.ErrLookupBudget, "one-more-stranger")
}

// Ids that a copy has brought are known to all gateways, and stay what they were: not
// imported. Any other id of the other store is refused without a look-up.
func TestCopiedIDsAreKnown(t *testing.T) {
	first, second, w := newWorld(t), newWorld(t), newWorld(t)
	old := first.create()
	if _, err := second.Copy(t.Context(), first.backend, by); err != nil {
		t.Fatal(err)
	}
	watching := w.flooded()
	if _, err := w.Copy(t.Context(), second.backend, by); err != nil {
		t.Fatal(err)
	}
	if view, err := w.Show(t.Context(), old.ID); err != nil || view.Imported {
		t.Errorf("%+v, %v", view, err)
	}
	if err := watching.FollowChanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	finds(t, watching, nil, old.ID)
	later := first.create().ID // no record here
	w.backend.gets.Store(0)
	finds(t, watching, store.ErrNotFound, later)
	for range 100 {
		finds(t, watching, store.ErrNotFound, newWorldID(t))
	}
	if n := w.backend.gets.Load(); n != 0 {
		t.Errorf("%d look-ups of ids with wrong checksums", n)
	}
}

// newWorldID returns an id of our form with the checksum of no store.
func newWorldID(t *testing.T) string { t.Helper(); return keyid.NewKey().Mint(keyid.Live) }

// An imported id may have the form of our ids, with the checksum of another
// gateway. It must not be taken for an invented one.
func TestImportedIDsOfOurFormAreFound(t *testing.T) {
	w := newWorld(t)
	watching := w.flooded()
	id, missed := newWorldID(t), newWorldID(t)
	w.imports(w.Service, id)
	finds(t, w.Service, nil, id)
	if err := watching.FollowChanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	finds(t, watching, nil, id)
	// The change of a gateway of the version before is not in the feed. It is found
	// when the keys are counted.
	w.imports(w.older(), missed)
	w.pass(5 * time.Minute)
	if err := watching.Recount(t.Context()); err != nil {
		t.Fatal(err)
	}
	finds(t, watching, nil, missed)
}

// older returns a gateway on the store whose changes are not in the feed.
func (w *world) older() *keys.Service {
	outside := &world{t: w.t, backend: &watched{Backend: w.backend.Backend}}
	outside.now.Store(w.now.Load())
	k := outside.service(ring(w.t, masterKey(1)))
	begin(w.t, k)
	return k
}

// A gateway answers an import or a copy of ids of our form only after it has
// waited until every other gateway either knows them or no longer trusts what
// it knew.
func TestOthersKnowBeforeTheAnswer(t *testing.T) {
	w, from := newWorld(t), newWorld(t)
	made, id := from.create().ID, newWorldID(t)
	other := w.service(ring(t, masterKey(1)))
	begin(t, other)
	waited := 0
	here := w.service(ring(t, masterKey(1)), func(o *keys.Options) {
		o.After = func(d time.Duration) <-chan time.Time {
			waited++
			w.pass(d)
			at := make(chan time.Time)
			close(at)
			return at
		}
	})
	for i, do := range []func() error{
		func() error { _, err := here.Copy(t.Context(), from.backend, by); return err },
		func() error {
			_, err := here.Import(t.Context(), keys.ImportRequest{ID: id, Secret: "the secret of " + id, Fields: acme()}, by)
			return err
		},
	} {
		if err := other.FollowChanges(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := do(); err != nil || waited != i+1 {
			t.Errorf("%v, waited %d times, want %d", err, waited, i+1)
		}
		finds(t, other, nil, []string{made, id}[i])
	}
}

// A gateway that cannot read the news does not refuse an id because it does not
// know it. It looks it up.
func TestIDsAreRefusedOnlyByFreshKnowledge(t *testing.T) {
	w := newWorld(t)
	step := func(reads int64) {
		t.Helper()
		w.backend.gets.Store(0)
		finds(t, w.Service, store.ErrNotFound, newWorldID(t))
		if n := w.backend.gets.Load(); n != reads {
			t.Errorf("%d reads, want %d", n, reads)
		}
	}
	step(0)
	w.pass(2*time.Second - time.Nanosecond)
	step(0)
	w.pass(time.Nanosecond)
	step(1)
	if err := w.FollowChanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	step(0)
	w.backend.down.Store(true)
	w.pass(2 * time.Second)
	if err := w.FollowChanges(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("no backend: %v", err)
	}
	finds(t, w.Service, store.ErrUnavailable, newWorldID(t))
}

// What other gateways have changed is read without a listing. If changes may have been
// missed, or the keys could not all be listed, all are listed once, and after a failure
// again half a minute later.
func TestChangesAreReadWithoutListing(t *testing.T) {
	w := newWorld(t)
	other := w.service(ring(t, masterKey(1)))
	begin(t, other)
	follow := func(lists int64) {
		t.Helper()
		w.backend.lists.Store(0)
		_ = other.FollowChanges(t.Context())
		_ = other.Recount(t.Context())
		if n := w.backend.lists.Load(); n != lists {
			t.Errorf("%d lists, want %d", n, lists)
		}
	}
	follow(0)
	w.imports(w.Service, "legacy")
	follow(0)
	w.backend.forget()
	follow(1)
	follow(0)
	change, err := w.backend.Meta(t.Context(), "id_change")
	if err != nil {
		t.Fatal(err)
	}
	// A gateway of the version before announces an import by another value.
	if err := w.backend.DeleteMeta(t.Context(), "id_change", change); err != nil {
		t.Fatal(err)
	}
	if _, err := w.backend.PutMeta(t.Context(), "id_change", []byte(keys.NewRevision())); err != nil {
		t.Fatal(err)
	}
	follow(1)
	follow(0)
	w.backend.before = func(call string) {
		if call == "List" {
			w.backend.down.Store(true)
		}
	}
	w.backend.forget()
	follow(1)
	w.backend.down.Store(false)
	follow(0)
	w.pass(30 * time.Second)
	follow(1)
	w.backend.down.Store(false)
	w.backend.before = nil
	w.pass(30 * time.Second)
	follow(1)
	follow(0)
}

// Two gateways announce an import at the same time, in every order that their
// calls can take. A third gateway reads the announced value, and then the ids.
// When it has seen the last value, it has found the ids of both.
func TestNoAnnouncementIsLost(t *testing.T) {
	const calls = 6
	w := newWorld(t)
	raw := w.backend.Backend
	var gateways []*gateway
	for range 2 {
		g := &gateway{watched: &watched{Backend: raw}, asks: make(chan struct{}), grants: make(chan struct{}), done: make(chan error)}
		w.backend = g.watched
		g.keys = w.service(ring(t, masterKey(1)))
		if err := g.keys.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		gateways = append(gateways, g)
	}
	for order := range 1 << calls {
		ids := []string{fmt.Sprintf("a-%d", order), fmt.Sprintf("b-%d", order)}
		third := &reader{t: t, backend: raw, ids: ids, complete: make(map[string]bool)}
		for i, g := range gateways {
			announcing := false // nothing but the announcement begins with Meta
			g.before = func(call string) {
				if announcing = announcing || call == "Meta"; announcing {
					third.look()
					g.asks <- struct{}{}
					<-g.grants
				}
			}
			go func() {
				_, err := g.keys.Import(t.Context(), keys.ImportRequest{Fields: acme(), ID: ids[i], Secret: "the secret of " + ids[i]}, by)
				g.done <- err
			}()
		}
		for _, err := range interleave(order, gateways) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if last := third.look(); last == "" || !third.complete[last] {
			t.Fatalf("order %b: the last value %q was read before both ids were written", order, last)
		}
	}
}

// reader reads the announced value, and then checks whether all ids exist.
type reader struct {
	t       *testing.T
	backend store.Backend
	ids     []string

	mu       sync.Mutex
	complete map[string]bool // by value: each time that it was read, all ids existed
}

func (r *reader) look() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, err := r.backend.Meta(context.Background(), "id_change")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		r.t.Error(err)
	}
	all := true
	for _, id := range r.ids {
		_, err := r.backend.Get(context.Background(), id)
		all = all && err == nil
	}
	if was, seen := r.complete[string(value)]; seen {
		all = all && was
	}
	r.complete[string(value)] = all
	return string(value)
}
