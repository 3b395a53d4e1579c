package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// Put writes the record if the stored revision is the expected one. It adds the
// id to the index first, so that every stored record is listed. List skips an id
// in the index without a record. If the store was emptied, Put makes it new, with
// the replay floor at this moment.
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
		args:   []any{opt.Expect, r.Revision, doc, lock, bit(opt.ClearFailures), decimal(s.servers.view.Load().floorOf(r.ID)), bit(opt.Restore)},
	})
	return durability, changeError(r.ID, outcome, err)
}

// Delete deletes the record, its count and its buckets. Its nonces stay.
func (s *Store) Delete(ctx context.Context, id, revision string) (store.Durability, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.ChangeTimeout)
	defer cancel()
	outcome, durability, err := s.change(ctx, call{
		script: deleteScript,
		keys:   []string{s.names.record(id), s.names.buckets(id)},
		args:   []any{revision, decimal(spanMillis), decimal(MaxWindow.Milliseconds())},
	})
	if err := changeError(id, outcome, err); err != nil {
		return store.Durability{}, err
	}
	if err := s.reindex(ctx, "remove", id); err != nil {
		return durability, err
	}
	if _, err := s.Get(ctx, id); err == nil { // it was made again meanwhile
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

// change runs a script that changes a key. Then, on the same connection, it waits
// for a replica to have the change, if there is one. It is not repeated if the
// answer is lost, because the change may have been made.
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
