package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// Get reads the key's hash on the master of its slot. After the store was emptied,
// a lost key looks the same as one that never existed. So until it is restarted,
// this gateway returns an error for it instead of ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (*store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.SettleTimeout)
	defer cancel()
	reply, err := s.run(ctx, "reading a key", call{
		script: getScript, keys: []string{s.names.record(id)}, args: []any{strconv.Itoa(maxRecordBytes)},
	})
	switch {
	case isOtherType(err):
		return nil, &store.DamagedError{ID: id, Field: store.DamagedDocument, Cause: errOtherType}
	case err != nil:
		return nil, err
	case len(reply) == 0:
		return nil, s.missing(ctx, id)
	}
	if bytes, large := reply[0].(int64); large {
		revision, err := text(reply, 1)
		return nil, errors.Join(&store.DamagedError{ID: id, Field: store.DamagedDocument, Revision: revision, Cause: tooLarge(bytes)}, err)
	}
	hash := make(map[string]string, len(reply)/2)
	for i := 0; i+1 < len(reply); i += 2 {
		field, err := text(reply, i)
		if err != nil {
			return nil, err
		}
		if hash[field], err = text(reply, i+1); err != nil {
			return nil, err
		}
	}
	return readRecord(id, hash)
}

// missing returns why there is no record of the key.
func (s *Store) missing(ctx context.Context, id string) error {
	if there, err := s.servers.initialised(ctx, id); err != nil {
		return err
	} else if !there {
		return errEmptied
	}
	if s.servers.lost.Load() {
		return errLost
	}
	return fmt.Errorf("key %q: %w", id, store.ErrNotFound)
}

// List pages through the index in the order of the ids and reads the records
// on their masters.
func (s *Store) List(ctx context.Context, cursor string, limit int) (store.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.ChangeTimeout)
	defer cancel()
	limit = max(limit, 1)
	ids, err := s.listed(ctx, cursor, limit+1)
	if err != nil {
		return store.Page{}, err
	}
	page := store.Page{}
	if len(ids) > limit {
		ids = ids[:limit]
		page.Next = ids[limit-1]
	}
	for i, read := range s.readTogether(ctx, ids) {
		r, err := read()
		var damaged *store.DamagedError
		switch {
		case errors.As(err, &damaged):
			page.Damaged = append(page.Damaged, damaged)
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return store.Page{}, fmt.Errorf("reading key %q: %w", ids[i], err)
		default:
			page.Records = append(page.Records, r)
		}
	}
	return page, nil
}

// listed returns the ids in the index that follow the cursor, at most n.
func (s *Store) listed(ctx context.Context, cursor string, n int) ([]string, error) {
	reply, err := s.run(ctx, "listing keys", call{
		script: indexScript, keys: []string{s.names.index()}, args: []any{"page", cursor, strconv.Itoa(n)},
	})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(reply))
	for i := range reply {
		if ids[i], err = text(reply, i); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// readTogether returns a function for each key that returns its record. It reads
// all of them at once. If that fails, perhaps because of one of them, each is read
// alone.
func (s *Store) readTogether(ctx context.Context, ids []string) []func() (*store.Record, error) {
	reads := make([]func() (*store.Record, error), len(ids))
	if len(ids) == 0 {
		return reads
	}
	pipe := s.client.Pipeline()
	hashes := make([]*redis.MapStringStringCmd, len(ids))
	for i, id := range ids {
		hashes[i] = pipe.HGetAll(ctx, s.names.record(id))
	}
	_, err := pipe.Exec(ctx)
	for i, id := range ids {
		reads[i] = func() (*store.Record, error) {
			if err != nil {
				return s.Get(ctx, id)
			}
			hash := hashes[i].Val()
			if hash["rev"] == "" {
				return nil, store.ErrNotFound
			}
			return readRecord(id, hash)
		}
	}
	return reads
}
