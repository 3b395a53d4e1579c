package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// memory is the smallest possible backend: the maps of the model and the values
// of Meta behind one lock, which makes every step atomic. A real backend keeps
// them in files or on a server, and drops dead nonces.
type memory struct {
	*held
	closed bool
}

// held is the state that outlives a backend, as a directory or a server does.
type held struct {
	mu    sync.Mutex
	model *model
	meta  map[string][]byte
	spent map[spent]bool // accepted requests
}

type spent struct {
	key       string
	nonce     [16]byte
	timestamp int64
}

func newMemory() *memory {
	return &memory{held: &held{model: newModel(), meta: make(map[string][]byte), spent: make(map[spent]bool)}}
}

// do runs one step, unless the backend is closed.
func (m *memory) do(step func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrUnavailable
	}
	return step()
}

func (m *memory) Start(context.Context) error { return nil }
func (m *memory) Ready(context.Context) error { return m.do(func() error { return nil }) }

// Settle does the steps of the contract in their order; they are in model.settle.
func (m *memory) Settle(_ context.Context, c *store.Claim) (v store.Verdict, err error) {
	err = m.do(func() error {
		this := spent{c.KeyID, c.Nonce, c.Timestamp}
		if nonces := m.model.key(c.KeyID).nonces; m.spent[this] && !c.Now.Before(nonces[c.Nonce]) {
			nonces[c.Nonce] = c.Now.Add(time.Second) // a wider window makes the request valid again
		}
		v = m.model.settle(c)
		m.spent[this] = m.spent[this] || !v.Stale && v.Reason == auth.Accepted
		return nil
	})
	return v, err
}

func (m *memory) Look(_ context.Context, c *store.Claim) (v store.Verdict, err error) {
	err = m.do(func() error { v = m.model.look(c); return nil })
	return v, err
}

func (m *memory) Levels(_ context.Context, id string, charges []ratelimit.Charge, now time.Time) (states []ratelimit.State, err error) {
	err = m.do(func() error { states = m.model.levels(id, charges, now); return nil })
	return states, err
}

func (m *memory) Changes(context.Context, string) (store.Changes, error) {
	return store.Changes{}, nil
}

func (m *memory) Get(_ context.Context, id string) (r *store.Record, err error) {
	err = m.do(func() error {
		if r = m.read(id); r == nil {
			return store.ErrNotFound
		}
		return nil
	})
	return r, err
}

// read returns a copy of a record, with the state that is kept beside it.
func (m *memory) read(id string) *store.Record {
	k := m.model.key(id)
	if k.record == nil {
		return nil
	}
	r := k.record.Clone()
	r.Failures, r.LastUsed = k.failures, k.lastUsed
	return r.Clone()
}

func (m *memory) Put(_ context.Context, r *store.Record, opt store.PutOptions) (d store.Durability, err error) {
	return d, m.do(func() error {
		switch stored := m.read(r.ID); {
		case opt.Expect == "" && stored != nil:
			return store.ErrExists
		case opt.Expect != "" && (stored == nil || stored.Revision != opt.Expect):
			return store.ErrConflict
		}
		m.model.put(r, opt)
		return nil
	})
}

func (m *memory) Delete(_ context.Context, id, revision string) (d store.Durability, err error) {
	return d, m.do(func() error {
		switch stored := m.read(id); {
		case stored == nil:
			return store.ErrNotFound
		case revision != "" && stored.Revision != revision:
			return store.ErrConflict
		}
		m.model.delete(id)
		return nil
	})
}

func (m *memory) List(_ context.Context, cursor string, limit int) (page store.Page, err error) {
	err = m.do(func() error {
		var ids []string
		for id, k := range m.model.keys {
			if k.record != nil && id > cursor {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		if len(ids) > limit {
			ids, page.Next = ids[:limit], ids[limit-1]
		}
		for _, id := range ids {
			page.Records = append(page.Records, m.read(id))
		}
		return nil
	})
	return page, err
}

func (m *memory) Meta(_ context.Context, name string) (value []byte, err error) {
	err = m.do(func() error {
		if value = bytes.Clone(m.meta[name]); value == nil {
			return store.ErrNotFound
		}
		return nil
	})
	return value, err
}

func (m *memory) PutMeta(_ context.Context, name string, value []byte) (stored []byte, err error) {
	err = m.do(func() error {
		if m.meta[name] == nil {
			m.meta[name] = append([]byte{}, value...)
		}
		stored = bytes.Clone(m.meta[name])
		return nil
	})
	return stored, err
}

func (m *memory) DeleteMeta(_ context.Context, name string, value []byte) error {
	return m.do(func() error {
		if stored, ok := m.meta[name]; ok && bytes.Equal(stored, value) {
			delete(m.meta, name)
		}
		return nil
	})
}

func (m *memory) Status(ctx context.Context) store.Status {
	return store.Status{Backend: "memory", Ready: m.Ready(ctx) == nil}
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// TestMemory runs the suite. Every backend has such a test.
func TestMemory(t *testing.T) {
	Run(t, func(testing.TB) *Setup {
		now := time.Unix(1750000000, 0)
		backend := newMemory()
		return &Setup{
			Backend: backend, ClaimClock: true,
			Now:     func() time.Time { return now },
			Advance: func(d time.Duration) { now = now.Add(d) },
			Reopen: func(testing.TB, Ending) store.Backend {
				return &memory{held: backend.held} // a crash is the same: Close writes nothing
			},
		}
	})
}

// This backend settles a request, and recognises its nonce when the request is
// repeated.
func ExampleRun() {
	var backend store.Backend = newMemory() // TestMemory in this file passes it to Run
	defer backend.Close()
	ctx, now := context.Background(), time.Unix(1750000000, 0)
	if _, err := backend.Put(ctx, &store.Record{ID: "ck_test_1", Revision: "r1", Fields: store.Fields{Tenant: "acme"}}, store.PutOptions{}); err != nil {
		fmt.Println(err)
	}
	claim := &store.Claim{
		KeyID: "ck_test_1", Revision: "r1", NextRevision: "r2", SecretVersion: 1,
		Now: now, Timestamp: now.Unix(), Window: 5 * time.Minute, Nonce: [16]byte{1}, LockAfter: 50,
	}
	for range 2 {
		verdict, err := backend.Settle(ctx, claim)
		fmt.Println(verdict.Reason, err)
	}
	// Output:
	// accepted <nil>
	// replayed_nonce <nil>
}
