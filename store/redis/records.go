package redis

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/masters"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

var (
	//go:embed get.lua
	getLua string
	//go:embed put.lua
	putLua string
	//go:embed delete.lua
	deleteLua string
	//go:embed index.lua
	indexLua string

	getScript    = rpc.NewScript(getLua)
	putScript    = masters.NewScript(putLua)
	deleteScript = masters.NewScript(deleteLua)
	indexScript  = masters.NewScript(indexLua)
)

// rights are the commands of all scripts, those of package masters included.
var rights = masters.Rights{
	Script: [][]any{
		{"hmget", "f"}, {"hget", "f"}, {"hset", "f", "v"}, {"hsetnx", "f", "v"}, {"hdel", "f"}, {"hlen"}, {"hexists", "f"}, {"exists"},
		{"hgetall"}, {"hincrby", "f", "1"}, {"get"}, {"set", "v"}, {"del"}, {"persist"}, {"pexpire", "1"},
		{"zadd", "0", "m"}, {"zrem", "m"}, {"zrangebylex", "-", "+"},
	},
	Other: [][]any{{"info"}, {"time"}, {"evalsha", "sha", "0"}, {"eval", "", "0"}},
	Replayed: [][]any{
		{"hset", "f", "v"}, {"hsetnx", "f", "v"}, {"hincrby", "f", "1"}, {"hdel", "f"},
		{"pexpireat", "1"}, {"persist"}, {"del"}, {"set", "v"}, {"zadd", "0", "m"}, {"zrem", "m"},
	},
}

// Get reads the key's hash on the master of its slot. After the store was emptied,
// a lost key looks the same as one that never existed. So until it is restarted,
// this gateway returns an error for it instead of ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (*store.Record, error) {
	if err := s.knownLarge(id); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.SettleTimeout)
	defer cancel()
	reply, err := s.client.Run(ctx, "reading a key", rpc.Call{
		Script: getScript, Keys: []string{s.names.record(id)}, Args: []any{maxRecordBytes},
	})
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return nil, &store.DamagedError{ID: id, Field: store.DamagedDocument, Cause: errors.New("redis has a value of another type in its place")}
	case err != nil:
		return nil, err
	case len(reply) == 0:
		return nil, s.missing(ctx, id)
	}
	if bytes, large := reply[0].(int64); large {
		revision, err := rpc.Text(reply, 1)
		cause := fmt.Errorf("it has more than %d bytes, at most %d are read", bytes, maxRecordBytes)
		if err != nil {
			return nil, err
		}
		damaged := &store.DamagedError{ID: id, Field: store.DamagedDocument, Revision: revision, Cause: cause}
		s.large.Store(id, damaged)
		time.AfterFunc(largePause, func() { s.large.Delete(id) })
		return nil, damaged
	}
	values, err := rpc.Texts(reply, len(reply))
	if err != nil {
		return nil, err
	}
	hash := make(map[string]string, len(values)/2)
	for i := 1; i < len(values); i += 2 {
		hash[values[i-1]] = values[i]
	}
	return readRecord(id, hash)
}

// largePause is how long a record that is too large is not asked for again: to read it
// stops Redis.
const largePause = 10 * time.Second

// knownLarge returns the error of a record that was too large a moment ago.
func (s *Store) knownLarge(id string) error {
	if damaged, found := s.large.Load(id); found {
		return damaged.(error)
	}
	return nil
}

var errLost = fmt.Errorf("%w: the key is missing, and redis was emptied since this gateway started; import the key again, or restart the gateway when all keys are there", store.ErrUnavailable)

// missing returns why there is no record of the key.
func (s *Store) missing(ctx context.Context, id string) error {
	if err := s.servers.InUse(ctx, id); err != nil {
		return err
	}
	if s.servers.Lost() {
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
	ids, err := s.indexed(ctx, "page", cursor, limit+1)
	if err != nil {
		return store.Page{}, err
	}
	page := store.Page{}
	if len(ids) > limit {
		ids = ids[:limit]
		page.Next = ids[limit-1]
	}
	hashes := s.readTogether(ctx, ids)
	for i, id := range ids {
		var r *store.Record
		if hashes[i] != nil {
			r, err = readRecord(id, hashes[i])
		} else {
			r, err = s.Get(ctx, id)
		}
		var damaged *store.DamagedError
		switch {
		case errors.As(err, &damaged):
			page.Damaged = append(page.Damaged, damaged)
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return store.Page{}, fmt.Errorf("reading key %q: %w", id, err)
		default:
			page.Records = append(page.Records, r)
		}
	}
	return page, nil
}

// readTogether reads the hashes of the keys at once. If that fails, perhaps because of
// one of them, it returns none, and each is read alone.
func (s *Store) readTogether(ctx context.Context, ids []string) []map[string]string {
	hashes, answers := make([]map[string]string, len(ids)), make([]*redis.MapStringStringCmd, len(ids))
	pipe := s.client.Pipeline()
	for i, id := range ids {
		if s.knownLarge(id) == nil {
			answers[i] = pipe.HGetAll(ctx, s.names.record(id))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return hashes
	}
	for i, answer := range answers {
		if answer != nil {
			hashes[i] = answer.Val()
		}
	}
	return hashes
}

// maxRecordBytes bounds the hash of a key that is read. The largest that a gateway
// writes has less than 2 MiB; a reply may have rpc.MaxReplyBytes.
const maxRecordBytes = 8 << 20

// readRecord makes a record from the fields of its hash. The error is a
// [store.DamagedError], or [store.ErrNotFound] of a hash without a revision.
func readRecord(id string, hash map[string]string) (*store.Record, error) {
	damaged := func(field string, cause error) (*store.Record, error) {
		return nil, &store.DamagedError{ID: id, Field: field, Revision: hash["rev"], Cause: cause}
	}
	if hash["rev"] == "" {
		return nil, fmt.Errorf("key %q: %w", id, store.ErrNotFound)
	}
	r := new(store.Record)
	if err := json.Unmarshal([]byte(hash["doc"]), r); err != nil {
		return damaged(store.DamagedDocument, documentError(err))
	}
	if r.ID != id {
		return damaged(store.DamagedID, errors.New("it is the record of another key"))
	}
	r.Revision = hash["rev"]
	var err error
	if r.Failures, err = strconv.Atoi("0" + hash["fails"]); err != nil {
		return damaged(store.DamagedFailures, errNoNumber)
	}
	if r.Lock, err = readLock(hash["lock"]); err != nil {
		return damaged(store.DamagedLock, errNoNumber)
	}
	if r.Lock != nil && r.Lock.At.After(r.UpdatedAt) {
		r.UpdatedAt = r.Lock.At
	}
	if r.LastUsed, err = readLastUsed(hash); err != nil {
		return damaged(store.DamagedLastUsed, errNoNumber)
	}
	return r, nil
}

var errNoNumber = errors.New("it is not a whole number in range")

// documentError returns what is wrong with a document, without anything that is in
// it: a text of encoding/json may have a part of a secret.
func documentError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is not JSON from byte %d on", syntax.Offset)
	}
	return errors.New("it has a value of the wrong type or form")
}

// readLock reads what Put and settle.lua write; nil for the empty text.
func readLock(text string) (*auth.Lock, error) {
	if text == "" {
		return nil, nil
	}
	n := parseNumbers(text, 3)
	lock := &auth.Lock{At: rpc.Moment(n.signed()), Until: rpc.Moment(n.signed()), Failures: int(n.signed())}
	if n.err == nil && !(showable(lock.At) && showable(lock.Until) && lock.Failures >= 0) {
		n.err = errNoNumber
	}
	return lock, n.err
}

// showable reports whether JSON can show the time. One time that it cannot would
// spoil the list of all keys.
func showable(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }

// readLastUsed returns when each secret was last used, by version; nil when none was.
func readLastUsed(hash map[string]string) (map[int]time.Time, error) {
	var used map[int]time.Time
	for field, value := range hash {
		version, found := strings.CutPrefix(field, "last:")
		if !found {
			continue
		}
		v, err1 := strconv.Atoi(version)
		minute, err2 := strconv.ParseUint(value, 10, 31)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if used == nil {
			used = make(map[int]time.Time, 2)
		}
		used[v] = time.Unix(int64(minute)*60, 0).UTC()
	}
	return used, nil
}

// Put writes the record if the stored revision is the expected one. It adds the
// id to the index first, so that every stored record is listed. List skips an id
// in the index without a record. The feed of changes gets the id after the record, so
// that whoever reads it there reads this record or a later one. If the store was
// emptied, Put makes it new, with the replay floor at this moment.
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
	if err := s.servers.Initialise(ctx, r.ID); err != nil {
		return store.Durability{}, err
	}
	if _, err := s.indexed(ctx, "add", r.ID); err != nil {
		return store.Durability{}, err
	}
	s.large.Delete(r.ID)
	outcome, durability, err := s.change(ctx, rpc.Call{
		Script: putScript,
		Keys:   []string{s.names.record(r.ID)},
		Args:   []any{opt.Expect, r.Revision, doc, lock, opt.ClearFailures, s.view().FloorOf(r.ID), opt.Restore},
	})
	if err = changeError(r.ID, outcome, err); err == nil {
		_, err = s.indexed(ctx, "changed", r.ID)
	}
	return durability, err
}

// micros returns microseconds of Unix time; 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Delete deletes the record, its count and its buckets. Its nonces stay.
func (s *Store) Delete(ctx context.Context, id, revision string) (store.Durability, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.ChangeTimeout)
	defer cancel()
	s.large.Delete(id)
	outcome, durability, err := s.change(ctx, rpc.Call{
		Script: deleteScript,
		Keys:   []string{s.names.record(id), s.names.buckets(id)},
		Args:   []any{revision, spanMillis, MaxWindow.Milliseconds()},
	})
	if err := changeError(id, outcome, err); err != nil {
		return store.Durability{}, err
	}
	if _, err = s.indexed(ctx, "remove", id); err != nil {
		return durability, err
	}
	if _, again := s.Get(ctx, id); again == nil { // it was made meanwhile
		_, err = s.indexed(ctx, "add", id)
	}
	return durability, err
}

func changeError(id, outcome string, err error) error {
	if err != nil || outcome == "ok" {
		return err
	}
	if cause := changeErrors[outcome]; cause != nil {
		return fmt.Errorf("key %q: %w", id, cause)
	}
	return fmt.Errorf("%w: redis answered %q", store.ErrUnavailable, outcome)
}

// changeErrors holds the errors of the outcomes of put.lua and delete.lua.
var changeErrors = map[string]error{"exists": store.ErrExists, "conflict": store.ErrConflict, "none": store.ErrNotFound}

// indexed runs index.lua and returns the texts of its reply.
func (s *Store) indexed(ctx context.Context, args ...any) ([]string, error) {
	reply, err := s.client.Run(ctx, "listing keys", rpc.Call{Script: indexScript, Keys: []string{s.names.index(), s.names.changes()}, Args: args})
	if err != nil {
		return nil, err
	}
	return rpc.Texts(reply, len(reply))
}

// changesPage is the largest number of changes that are read at once.
const changesPage = 1000

// Changes reads the feed of changes after the mark, which is a member of the feed. If
// the mark is missing there, it was removed, or the server has another content than
// before: there is a gap.
func (s *Store) Changes(ctx context.Context, mark string) (store.Changes, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.ChangeTimeout)
	defer cancel()
	feed, err := s.indexed(ctx, "feed", mark, changesPage)
	if err == nil && len(feed) == 0 {
		err = fmt.Errorf("%w: redis answered without a mark of the changes", store.ErrUnavailable)
	}
	if err != nil {
		return store.Changes{}, err
	}
	changes := store.Changes{Mark: feed[len(feed)-1], Gap: feed[0] != mark}
	for _, member := range feed[1:] {
		if _, id, _ := strings.Cut(member, ":"); id != "" { // else it is the mark of another gateway
			changes.IDs = append(changes.IDs, id)
		}
	}
	return changes, nil
}

// change runs a script that changes a key. Then, on the same connection, it waits
// for a replica to have the change, if there is one. It is not repeated if the
// answer is lost, because the change may have been made.
func (s *Store) change(ctx context.Context, c rpc.Call) (outcome string, d store.Durability, err error) {
	err = s.client.RunOnConn(ctx, "changing a key", c, func(reply []any, conn *redis.Conn) (err error) {
		if outcome, err = rpc.Text(reply, 0); err != nil || outcome != "ok" {
			return err
		}
		replicas, err := rpc.Text(reply, 1)
		if err != nil || replicas == "0" && len(s.opt.SentinelAddrs) == 0 {
			return err
		}
		acknowledged := false
		if replicas != "0" {
			n, err := conn.Wait(ctx, 1, waitForReplica).Result()
			acknowledged = err == nil && n >= 1
		}
		d.Replicated = &acknowledged
		return nil
	})
	return outcome, d, err
}

// waitForReplica is shorter than the read timeout of a connection.
const waitForReplica = 80 * time.Millisecond

// Meta returns a small named value.
func (s *Store) Meta(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.SettleTimeout)
	defer cancel()
	value, found, err := s.client.Value(ctx, s.names.meta(name), "get", "")
	if err != nil {
		return nil, err
	}
	if found {
		return value, nil
	}
	if err := s.servers.InUse(ctx, name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("value %q: %w", name, store.ErrNotFound)
}

// PutMeta writes a small named value if there is none.
func (s *Store) PutMeta(ctx context.Context, name string, value []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.ChangeTimeout)
	defer cancel()
	if err := s.servers.Initialise(ctx, name); err != nil {
		return nil, err
	}
	stored, found, err := s.client.Value(ctx, s.names.meta(name), "put", string(value))
	if err == nil && !found {
		err = fmt.Errorf("%w: redis did not keep the value %q", store.ErrUnavailable, name)
	}
	return stored, err
}

// DeleteMeta removes a named value if it still is the given one.
func (s *Store) DeleteMeta(ctx context.Context, name string, value []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.ChangeTimeout)
	defer cancel()
	_, _, err := s.client.Value(ctx, s.names.meta(name), "delete", string(value))
	return err
}
