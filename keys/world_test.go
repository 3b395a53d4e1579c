package keys_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
)

// watched is a backend that is not local. It counts reads of records, and fails
// or waits if the test wants that.
type watched struct {
	store.Backend
	gets   atomic.Int64
	lists  atomic.Int64
	down   atomic.Bool
	before func(call string) // set before use; called before each call

	damaged sync.Map // ids of keys whose record cannot be read

	mu     sync.Mutex
	feed   []string // ids of changed keys
	forgot int      // how many of the first ones are no longer in the feed
}

// note adds a change to the feed. That of a gateway of the version before is not.
func (w *watched) note(id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.feed = append(w.feed, id)
	}
}

// forget makes a gap of all that is in the feed.
func (w *watched) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.feed = append(w.feed, "lost")
	w.forgot = len(w.feed)
}

func (w *watched) Changes(_ context.Context, mark string) (store.Changes, error) {
	if err := w.enter("Changes"); err != nil {
		return store.Changes{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := strconv.Itoa(len(w.feed))
	if from, err := strconv.Atoi(mark); err == nil && from >= w.forgot {
		return store.Changes{IDs: w.feed[from:], Mark: now}, nil
	}
	return store.Changes{Mark: now, Gap: true}, nil
}

func (w *watched) Local() bool { return false }

func (w *watched) enter(call string) error {
	if w.before != nil {
		w.before(call)
	}
	if w.down.Load() {
		return store.ErrUnavailable
	}
	return nil
}

func (w *watched) Get(ctx context.Context, id string) (*store.Record, error) {
	w.gets.Add(1)
	if err := w.enter("Get"); err != nil {
		return nil, err
	}
	r, err := w.Backend.Get(ctx, id)
	if _, found := w.damaged.Load(id); found && err == nil {
		return nil, damagedError(r)
	}
	return r, err
}

// damagedError is the error of a backend for a record that it cannot read.
func damagedError(r *store.Record) *store.DamagedError {
	return &store.DamagedError{ID: r.ID, Field: store.DamagedDocument, Revision: r.Revision, Cause: errors.New("it is not JSON")}
}

func (w *watched) List(ctx context.Context, cursor string, limit int) (store.Page, error) {
	w.lists.Add(1)
	if err := w.enter("List"); err != nil {
		return store.Page{}, err
	}
	page, err := w.Backend.List(ctx, cursor, limit)
	page.Records = slices.DeleteFunc(page.Records, func(r *store.Record) bool {
		_, found := w.damaged.Load(r.ID)
		if found {
			page.Damaged = append(page.Damaged, damagedError(r))
		}
		return found
	})
	return page, err
}

func (w *watched) Put(ctx context.Context, r *store.Record, opt store.PutOptions) (store.Durability, error) {
	if err := w.enter("Put"); err != nil {
		return store.Durability{}, err
	}
	d, err := w.Backend.Put(ctx, r, opt)
	w.note(r.ID, err)
	return d, err
}

func (w *watched) Meta(ctx context.Context, name string) ([]byte, error) {
	if err := w.enter("Meta"); err != nil {
		return nil, err
	}
	return w.Backend.Meta(ctx, name)
}

func (w *watched) PutMeta(ctx context.Context, name string, value []byte) ([]byte, error) {
	if err := w.enter("PutMeta"); err != nil {
		return nil, err
	}
	return w.Backend.PutMeta(ctx, name, value)
}

func (w *watched) DeleteMeta(ctx context.Context, name string, value []byte) error {
	if err := w.enter("DeleteMeta"); err != nil {
		return err
	}
	return w.Backend.DeleteMeta(ctx, name, value)
}

func (w *watched) Delete(ctx context.Context, id, revision string) (store.Durability, error) {
	if err := w.enter("Delete"); err != nil {
		return store.Durability{}, err
	}
	d, err := w.Backend.Delete(ctx, id, revision)
	w.note(id, err)
	return d, err
}

// masterKey returns the line of a master key. Different seeds give different
// keys.
func masterKey(seed byte) string {
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = seed + byte(i)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func ring(t testing.TB, lines ...string) *keyring.Ring {
	t.Helper()
	r, err := keyring.Parse(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newBackend(t testing.TB) store.Backend {
	t.Helper()
	backend, err := file.Open(t.TempDir(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	if err := backend.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return backend
}

// world is a key service on a backend of its own, with a clock that only the
// test moves.
type world struct {
	*keys.Service
	t       testing.TB
	backend *watched
	now     atomic.Pointer[time.Time]

	mu      sync.Mutex
	changes []keys.Change
	waiting func(keys.Change)
}

var epoch = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// newWorld starts a key service; options may be adjusted by f.
func newWorld(t testing.TB, f ...func(*keys.Options)) *world {
	t.Helper()
	return startWorld(t, newBackend(t), f...)
}

// oldWorld is a newWorld on a store of version 0.1, whose records have no seal.
func oldWorld(t testing.TB, f ...func(*keys.Options)) *world {
	t.Helper()
	backend, ids := newBackend(t), keyid.NewKey()
	if _, err := backend.PutMeta(t.Context(), "id_key", ring(t, masterKey(1)).Seal(ids[:], "id_key")); err != nil {
		t.Fatal(err)
	}
	return startWorld(t, backend, f...)
}

func startWorld(t testing.TB, backend store.Backend, f ...func(*keys.Options)) *world {
	t.Helper()
	w := &world{t: t, backend: &watched{Backend: backend}}
	w.now.Store(&epoch)
	w.Service = w.service(ring(t, masterKey(1)), f...)
	begin(t, w.Service)
	return w
}

// begin starts a gateway's keys, as its background work does.
func begin(t testing.TB, k *keys.Service) {
	t.Helper()
	err := k.Start(t.Context())
	if err == nil {
		err = k.Recount(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// service returns another key service on the same backend, as another gateway
// or the same after a restart would have.
func (w *world) service(ring *keyring.Ring, f ...func(*keys.Options)) *keys.Service {
	at := make(chan time.Time)
	close(at)
	opt := keys.Options{Clock: w.clock, After: func(time.Duration) <-chan time.Time { return at }, OnChange: func(c keys.Change) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changes = append(w.changes, c)
		if w.waiting != nil {
			w.waiting(c)
		}
	}}
	for _, f := range f {
		f(&opt)
	}
	keys := keys.New(w.backend, ring, opt)
	w.t.Cleanup(keys.Stop)
	return keys
}

func (w *world) clock() time.Time { return *w.now.Load() }

func (w *world) pass(d time.Duration) {
	now := w.clock().Add(d)
	w.now.Store(&now)
}

// create makes a key of the tenant "acme" with the scope "*".
func (w *world) create() keys.Changed {
	w.t.Helper()
	changed, err := w.Create(w.t.Context(), keys.CreateRequest{Fields: acme()}, by)
	if err != nil {
		w.t.Fatal(err)
	}
	return changed
}

func acme() store.Fields { return store.Fields{Tenant: "acme", Scopes: []string{"*"}} }

var by = keys.By{Actor: "alice"}

// accepts reports for each secret whether the key now verifies signatures with
// it.
func (w *world) accepts(key *auth.Key, secrets ...string) []bool {
	var accepted []bool
	for _, text := range secrets {
		signature := auth.NewSecret(1, text, time.Time{}).Sign([]byte("x"))
		ok := false
		for _, s := range key.Secrets {
			ok = ok || s.Live(w.clock()) && s.Verify([]byte("x"), signature)
		}
		accepted = append(accepted, ok)
	}
	return accepted
}

func (w *world) lookup(id string) *auth.Key {
	w.t.Helper()
	key, err := w.Lookup(w.t.Context(), id)
	if err != nil {
		w.t.Fatalf("looking up %s: %v", id, err)
	}
	return key
}

func (w *world) fresh(id string) *auth.Key {
	w.t.Helper()
	key, err := w.Fresh(w.t.Context(), id)
	if err != nil {
		w.t.Fatalf("looking up %s: %v", id, err)
	}
	return key
}

// record returns the stored record as JSON.
func (w *world) record(id string) string {
	w.t.Helper()
	r, err := w.backend.Backend.Get(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	doc, err := json.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(doc)
}

// tamper changes the stored record without the service.
func (w *world) tamper(id string, f func(*store.Record)) {
	w.t.Helper()
	r, err := w.backend.Backend.Get(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	expect := r.Revision
	r = r.Clone()
	r.Revision = keys.NewRevision()
	f(r)
	if _, err := w.backend.Backend.Put(context.Background(), r, store.PutOptions{Expect: expect}); err != nil {
		w.t.Fatal(err)
	}
}
