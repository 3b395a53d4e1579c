package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file/journal"
)

// defaultPage is the length of a page of List when the caller gives no limit.
const defaultPage = 100

// reading returns the state to read from.
func (s *Store) reading(ctx context.Context) (*state, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st := s.state.Load()
	if st == nil {
		return nil, journal.ErrClosed
	}
	return st, nil
}

// changing locks the state for a change; the caller unlocks st.changes.
func (s *Store) changing(ctx context.Context) (*state, error) {
	st, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	if st.journal == nil {
		return nil, errNotStarted
	}
	st.changes.Lock()
	if st.closed {
		st.changes.Unlock()
		return nil, journal.ErrClosed
	}
	return st, nil
}

// Get implements store.Backend. Before Start it answers from the key file as
// it was when the store was opened.
func (s *Store) Get(ctx context.Context, id string) (*store.Record, error) {
	st, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	if k := st.key(id); k != nil {
		if r := k.view(); r != nil {
			return r, nil
		}
	}
	return nil, store.ErrNotFound
}

// List implements store.Backend. The order is that of the ids, the cursor is
// the last id of a page. No record is damaged: a key file that cannot be read in
// full is not opened.
func (s *Store) List(ctx context.Context, cursor string, limit int) (store.Page, error) {
	st, err := s.reading(ctx)
	if err != nil {
		return store.Page{}, err
	}
	if limit <= 0 {
		limit = defaultPage
	}
	st.listing.RLock()
	at, found := slices.BinarySearch(st.ids, cursor)
	if found {
		at++
	}
	ids := slices.Clone(st.ids[at : at+min(limit, len(st.ids)-at)])
	more := at+len(ids) < len(st.ids)
	st.listing.RUnlock()
	var page store.Page
	for _, id := range ids {
		if k := st.key(id); k != nil {
			if r := k.view(); r != nil {
				page.Records = append(page.Records, r)
			}
		}
	}
	if more {
		page.Next = ids[len(ids)-1]
	}
	return page, nil
}

// Put implements store.Backend. The record is on the disk when it returns.
// Requests of this one key wait meanwhile.
func (s *Store) Put(ctx context.Context, r *store.Record, opt store.PutOptions) (store.Durability, error) {
	if r.ID == "" || r.Revision == "" || r.Revision == opt.Expect {
		return store.Durability{}, fmt.Errorf("key %q: a record needs an id and a new revision", r.ID)
	}
	next, err := newStored(r.Clone())
	if err != nil {
		return store.Durability{}, err
	}
	st, err := s.changing(ctx)
	if err != nil {
		return store.Durability{}, err
	}
	defer st.changes.Unlock()
	if opt.Expect == "" {
		return store.Durability{}, st.create(next)
	}
	return store.Durability{}, st.replace(next, opt)
}

// create writes the record of a new key. First it makes the journal's state of an
// earlier key of that id void, except the nonces.
func (st *state) create(next *storedRecord) error {
	id := next.record.ID
	k := st.makeKey(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stored.Load() != nil {
		return store.ErrExists
	}
	k.forgetAll()
	if err := k.carry(st, st.opt.Clock().Unix()); err != nil {
		return err
	}
	if err := st.record(next.change()); err != nil {
		return err
	}
	k.stored.Store(next)
	st.listing.Lock()
	defer st.listing.Unlock()
	at, _ := slices.BinarySearch(st.ids, id)
	st.ids = slices.Insert(st.ids, at, id)
	return nil
}

// replace writes a changed record. If the count must be cleared, that happens
// first, and it is not undone if the record cannot be written.
func (st *state) replace(next *storedRecord, opt store.PutOptions) error {
	k := st.key(next.record.ID)
	if k == nil {
		return store.ErrConflict
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if stored := k.stored.Load(); stored == nil || stored.record.Revision != opt.Expect {
		return store.ErrConflict
	}
	if opt.ClearFailures && k.failures > 0 {
		e := journal.Entry{Kind: journal.KindCounted, Now: st.opt.Clock().Unix(), Key: k.id}
		if err := k.append(st, &e); err != nil {
			return err
		}
		k.setFailures(0)
	}
	if err := st.record(next.change()); err != nil {
		return err
	}
	k.stored.Store(next)
	return nil
}

// Delete implements store.Backend.
func (s *Store) Delete(ctx context.Context, id, revision string) (store.Durability, error) {
	st, err := s.changing(ctx)
	if err != nil {
		return store.Durability{}, err
	}
	defer st.changes.Unlock()
	k := st.key(id)
	if k == nil {
		return store.Durability{}, store.ErrNotFound
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	stored := k.stored.Load()
	switch {
	case stored == nil:
		return store.Durability{}, store.ErrNotFound
	case revision != "" && stored.record.Revision != revision:
		return store.Durability{}, store.ErrConflict
	}
	if err := st.record(otherChange(keyFile{Deleted: id})); err != nil {
		return store.Durability{}, err
	}
	k.stored.Store(nil)
	k.forgetAll()
	st.listing.Lock()
	defer st.listing.Unlock()
	at, _ := slices.BinarySearch(st.ids, id)
	st.ids = slices.Delete(st.ids, at, at+1)
	return store.Durability{}, nil
}

// Changes returns none: no other process changes the keys.
func (s *Store) Changes(context.Context, string) (store.Changes, error) { return store.Changes{}, nil }

// Meta implements store.Backend.
func (s *Store) Meta(ctx context.Context, name string) ([]byte, error) {
	st, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	st.listing.RLock()
	defer st.listing.RUnlock()
	if v, ok := st.meta[name]; ok {
		return bytes.Clone(v), nil
	}
	return nil, store.ErrNotFound
}

// PutMeta implements store.Backend. If the name has a value already, nothing is
// written.
func (s *Store) PutMeta(ctx context.Context, name string, value []byte) ([]byte, error) {
	v, err := s.Meta(ctx, name)
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return v, err
	}
	st, err := s.changing(ctx)
	if err != nil {
		return nil, err
	}
	defer st.changes.Unlock()
	if v, ok := st.meta[name]; ok {
		return bytes.Clone(v), nil
	}
	value = append([]byte{}, value...)
	return bytes.Clone(value), st.setMeta(name, value)
}

// DeleteMeta implements store.Backend.
func (s *Store) DeleteMeta(ctx context.Context, name string, value []byte) error {
	st, err := s.changing(ctx)
	if err != nil {
		return err
	}
	defer st.changes.Unlock()
	if v, ok := st.meta[name]; !ok || !bytes.Equal(v, value) {
		return nil
	}
	return st.setMeta(name, nil)
}

// setMeta writes a named value; nil removes it.
func (st *state) setMeta(name string, value []byte) error {
	if err := st.record(otherChange(keyFile{Meta: map[string][]byte{name: value}})); err != nil {
		return err
	}
	st.listing.Lock()
	defer st.listing.Unlock()
	if st.meta[name] = value; value == nil {
		delete(st.meta, name)
	}
	return nil
}
