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

// Get reads the key's hash on the master of its slot. After the store was
// emptied nobody can tell a key that was lost from one that never was, so it
// answers that there is none only in a gateway that was started since.
func (s *Store) Get(ctx context.Context, id string) (*store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.SettleTimeout)
	defer cancel()
	reply, err := s.run(ctx, "reading a key", call{script: getScript, keys: []string{s.names.record(id)}})
	if err != nil {
		return nil, err
	}
	if len(reply) == 0 {
		if there, err := s.initialised(ctx, id); err != nil {
			return nil, err
		} else if !there {
			return nil, errEmptied
		}
		if s.lost.Load() {
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

// readRecord puts a record together from the fields of its hash.
func readRecord(id string, hash map[string]string) (*store.Record, error) {
	r := new(store.Record)
	if err := json.Unmarshal([]byte(hash["doc"]), r); err != nil || r.ID != id {
		return nil, fmt.Errorf("%w: the record of key %q in redis is damaged", store.ErrUnavailable, id)
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

// moment is the time of so many microseconds; 0 is none.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Put writes the record if the revision is the one expected. It enters the id
// into the index first, so that no stored record is ever unlisted; an id in
// the index without a record is passed over. A store that was emptied is made
// anew, with the replay floor at this moment.
func (s *Store) Put(ctx context.Context, r *store.Record, opt store.PutOptions) (store.Durability, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.ChangeTimeout)
	defer cancel()
	bare := *r
	bare.Lock = nil
	doc, err := json.Marshal(&bare)
	if err != nil {
		return store.Durability{}, fmt.Errorf("encoding the record of key %q: %w", r.ID, err)
	}
	lock := ""
	if r.Lock != nil {
		lock = fmt.Sprintf("%d %d %d", micros(r.Lock.At), micros(r.Lock.Until), r.Lock.Failures)
	}
	if err := s.initialise(ctx, r.ID); err != nil {
		return store.Durability{}, err
	}
	if err := s.reindex(ctx, "add", r.ID); err != nil {
		return store.Durability{}, err
	}
	outcome, durability, err := s.change(ctx, call{
		script: putScript,
		keys:   []string{s.names.record(r.ID)},
		args:   []any{opt.Expect, r.Revision, doc, lock, bit(opt.ClearFailures), decimal(s.view.Load().floor)},
	})
	return durability, changeError(r.ID, outcome, err)
}

// Delete forgets the record, its count and its buckets. Its nonces stay.
func (s *Store) Delete(ctx context.Context, id, revision string) (store.Durability, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.ChangeTimeout)
	defer cancel()
	outcome, durability, err := s.change(ctx, call{
		script: deleteScript,
		keys:   []string{s.names.record(id), s.names.buckets(id)},
		args:   []any{revision, decimal(spanMillis)},
	})
	if err := changeError(id, outcome, err); err != nil {
		return store.Durability{}, err
	}
	if err := s.reindex(ctx, "remove", id); err != nil {
		return durability, err
	}
	if _, err := s.Get(ctx, id); err == nil { // somebody made it again meanwhile
		return durability, s.reindex(ctx, "add", id)
	}
	return durability, nil
}

func changeError(id, outcome string, err error) error {
	switch {
	case err != nil:
		return err
	case outcome == "ok":
		return nil
	case outcome == "exists":
		return fmt.Errorf("key %q: %w", id, store.ErrExists)
	case outcome == "conflict":
		return fmt.Errorf("key %q: %w", id, store.ErrConflict)
	case outcome == "none":
		return fmt.Errorf("key %q: %w", id, store.ErrNotFound)
	default:
		return fmt.Errorf("%w: redis answered %q", store.ErrUnavailable, outcome)
	}
}

func (s *Store) reindex(ctx context.Context, how, id string) error {
	_, err := s.run(ctx, "listing the key", call{script: indexScript, keys: []string{s.names.index()}, args: []any{how, id}})
	return err
}

// change runs a script that changes a key and, on the same connection, waits
// for a replica to have it, if there is one. It is not repeated when the
// answer is lost: the change may have been made.
func (s *Store) change(ctx context.Context, c call) (outcome string, d store.Durability, err error) {
	for pause := firstPause; ; pause *= 2 {
		outcome, d, err = s.tryChange(ctx, c)
		if err == nil || !movedElsewhere(err) || s.cluster == nil {
			break
		}
		s.cluster.ReloadState(ctx)
		if sleep(ctx, pause) != nil {
			break
		}
	}
	if err != nil {
		return "", store.Durability{}, unavailable("changing a key", err)
	}
	return outcome, d, nil
}

func movedElsewhere(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

func (s *Store) tryChange(ctx context.Context, c call) (string, store.Durability, error) {
	var none store.Durability
	node, _ := s.client.(*redis.Client)
	if s.cluster != nil {
		var err error
		if node, err = s.cluster.MasterForKey(ctx, c.keys[0]); err != nil {
			return "", none, err
		}
	}
	conn := node.Conn()
	defer conn.Close()
	reply, err := s.runOn(ctx, conn, c)
	if err != nil {
		return "", none, err
	}
	outcome, err := text(reply, 0)
	if err != nil || outcome != "ok" {
		return outcome, none, err
	}
	replicas, err := text(reply, 1)
	if err != nil || replicas == "0" && len(s.opt.SentinelAddrs) == 0 {
		return outcome, none, err
	}
	acknowledged := false
	if replicas != "0" {
		n, err := conn.Wait(ctx, 1, waitForReplica).Result()
		acknowledged = err == nil && n >= 1
	}
	return outcome, store.Durability{Replicated: &acknowledged}, nil
}

// waitForReplica is shorter than the read timeout of a connection.
const waitForReplica = 80 * time.Millisecond

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
