package store_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/card-gateway/card-gateway/store"
)

// memory is a backend that holds records and named values only.
type memory struct {
	store.Backend
	mu      sync.Mutex
	records map[string]*store.Record
	metas   map[string]string
}

func newBackend(testing.TB) store.Backend {
	return &memory{records: make(map[string]*store.Record), metas: make(map[string]string)}
}

func (m *memory) Get(_ context.Context, id string) (*store.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.records[id]; r != nil {
		return r.Clone(), nil
	}
	return nil, store.ErrNotFound
}

func (m *memory) Put(_ context.Context, r *store.Record, opt store.PutOptions) (store.Durability, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.records[r.ID]
	switch {
	case opt.Expect == "" && old != nil:
		return store.Durability{}, store.ErrExists
	case opt.Expect != "" && (old == nil || old.Revision != opt.Expect):
		return store.Durability{}, store.ErrConflict
	}
	m.records[r.ID] = r.Clone()
	if opt.ClearFailures {
		m.records[r.ID].Failures = 0
	}
	return store.Durability{}, nil
}

func (m *memory) Delete(_ context.Context, id, revision string) (store.Durability, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.records[id]
	switch {
	case old == nil:
		return store.Durability{}, store.ErrNotFound
	case revision != "" && old.Revision != revision:
		return store.Durability{}, store.ErrConflict
	}
	delete(m.records, id)
	return store.Durability{}, nil
}

func (m *memory) List(_ context.Context, cursor string, limit int) ([]*store.Record, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []*store.Record
	for _, id := range slices.Sorted(maps.Keys(m.records)) {
		if id <= cursor {
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		page = append(page, m.records[id].Clone())
	}
	return page, "", nil
}

func (m *memory) Meta(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.metas[name]; ok {
		return []byte(v), nil
	}
	return nil, store.ErrNotFound
}

func (m *memory) PutMeta(_ context.Context, name string, value []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.metas[name]; !ok {
		m.metas[name] = string(value)
	}
	return []byte(m.metas[name]), nil
}

func (m *memory) DeleteMeta(_ context.Context, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.metas[name] == string(value) {
		delete(m.metas, name)
	}
	return nil
}

func (m *memory) Status(context.Context) store.Status {
	return store.Status{Backend: "memory", Ready: true}
}
