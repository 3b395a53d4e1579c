package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// Get reads the key's hash on the master of its slot. After the store was emptied,
// a lost key looks the same as one that never existed. So until it is restarted,
// this gateway returns an error for it instead of ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (*store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.SettleTimeout)
	defer cancel()
	reply, err := s.run(ctx, "reading a key", call{script: getScript, keys: []string{s.names.record(id)}})
	if err != nil {
		return nil, err
	}
	if len(reply) == 0 {
		if there, err := s.servers.initialised(ctx, id); err != nil {
			return nil, err
		} else if !there {
			return nil, errEmptied
		}
		if s.servers.lost.Load() {
			return nil, errLost
		}
		return nil, fmt.Errorf("key %q: %w", id, store.ErrNotFound)
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

// readRecord makes a record from the fields of its hash.
func readRecord(id string, hash map[string]string) (*store.Record, error) {
	r := new(store.Record)
	if err := json.Unmarshal([]byte(hash["doc"]), r); err != nil {
		return nil, &store.DamagedError{ID: id, Field: "document", Cause: err}
	}
	if r.ID != id {
		return nil, &store.DamagedError{ID: id, Field: "id", Cause: fmt.Errorf("it is %q", r.ID)}
	}
	r.Revision = hash["rev"]
	var err error
	if r.Failures, err = strconv.Atoi("0" + hash["fails"]); err != nil {
		return nil, fmt.Errorf("%w: the failure count of key %q in redis is damaged", store.ErrUnavailable, id)
	}
	if lock := hash["lock"]; lock != "" {
		n := fields{rest: lock}
		r.Lock = &auth.Lock{At: moment(n.next()), Until: moment(n.next()), Failures: int(n.next())}
		if n.err != nil {
			return nil, fmt.Errorf("the lock of key %q: %w", id, n.err)
		}
		if r.Lock.At.After(r.UpdatedAt) {
			r.UpdatedAt = r.Lock.At
		}
	}
	for field, value := range hash {
		version, found := strings.CutPrefix(field, "last:")
		if !found {
			continue
		}
		v, err1 := strconv.Atoi(version)
		minute, err2 := strconv.ParseInt(value, 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%w: when key %q was last used is damaged in redis: %w", store.ErrUnavailable, id, err)
		}
		if r.LastUsed == nil {
			r.LastUsed = make(map[int]time.Time, 2)
		}
		r.LastUsed[v] = time.Unix(minute*60, 0).UTC()
	}
	return r, nil
}

// List pages through the index in the order of the ids and reads the records
// one by one on their masters.
func (s *Store) List(ctx context.Context, cursor string, limit int) ([]*store.Record, string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.ChangeTimeout)
	defer cancel()
	limit = max(limit, 1)
	reply, err := s.run(ctx, "listing keys", call{
		script: indexScript, keys: []string{s.names.index()}, args: []any{"page", cursor, strconv.Itoa(limit + 1)},
	})
	if err != nil {
		return nil, "", err
	}
	ids := make([]string, len(reply))
	for i := range reply {
		if ids[i], err = text(reply, i); err != nil {
			return nil, "", err
		}
	}
	next := ""
	if len(ids) > limit {
		ids = ids[:limit]
		next = ids[limit-1]
	}
	pipe := s.client.Pipeline()
	hashes := make([]*redis.MapStringStringCmd, len(ids))
	for i, id := range ids {
		hashes[i] = pipe.HGetAll(ctx, s.names.record(id))
	}
	if len(ids) > 0 {
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, "", unavailable("listing keys", err)
		}
	}
	records := make([]*store.Record, 0, len(ids))
	for i, id := range ids {
		hash := hashes[i].Val()
		if hash["rev"] == "" {
			continue
		}
		r, err := readRecord(id, hash)
		if err != nil {
			return nil, "", err
		}
		records = append(records, r)
	}
	return records, next, nil
}
