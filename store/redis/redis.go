// Package redis keeps the state of several gateways in Redis: one server, a
// Sentinel set or a Cluster. A nonce that one gateway accepted is used on all,
// they share each limit, and a changed key applies to the next request everywhere.
// A request costs one script call.
//
// All Redis keys of one API key have the hash tag {id}, so they are in one slot.
// settle.lua makes the decisions of a request. docs/redis.md describes what is
// promised through a failover.
//
// Below it, [github.com/card-gateway/card-gateway/store/redis/masters] knows which
// servers hold the state, and [github.com/card-gateway/card-gateway/store/redis/rpc]
// calls one of them. Begin with [Store.Settle] in settle.go. The files:
//
//   - redis: the store, its options, the names of its keys, and what operators see
//   - settle: the call that decides a request; verdict: its reply
//   - records: keys and small values
//   - policy: the options of other gateways
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/masters"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// Options are the place of Redis and the settings of the store.
type Options struct {
	// The servers, and the connections to them.
	rpc.Options

	// Prefix is the start of every Redis key. Gateways with different prefixes
	// share nothing. Default: "cg:".
	Prefix string

	// SettleTimeout is how long settling a request may take in all, even if the
	// client has gone. Default: 200 ms.
	SettleTimeout time.Duration
	// ChangeTimeout is how long changes of keys and checks of the servers may
	// take. Default: 2 s.
	ChangeTimeout time.Duration
	// MaxNoncesPerKey is the most live nonces of one key; the next request gets
	// [store.ErrFull]. 0 means a million, a negative number no limit. The server's
	// own maxmemory limits all nonces together.
	MaxNoncesPerKey int

	// AcceptReplicasUnverified is whether to start although the user may not read
	// min-replicas-to-write: after a network cut, two masters may then accept the same
	// request.
	AcceptReplicasUnverified bool

	// now, when set, replaces the clock by which checks are made. Only tests set it.
	now func() time.Time
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case strings.ContainsAny(o.Prefix, "{} \r\n"):
		return o, fmt.Errorf("redis: prefix %q must not hold braces, spaces or line ends", o.Prefix)
	case o.SettleTimeout < 0 || o.ChangeTimeout < 0:
		return o, errors.New("redis: timeouts must not be negative")
	}
	o.Prefix = cmp.Or(o.Prefix, "cg:")
	o.SettleTimeout = cmp.Or(o.SettleTimeout, 200*time.Millisecond)
	o.ChangeTimeout = cmp.Or(o.ChangeTimeout, 2*time.Second)
	o.MaxNoncesPerKey = cmp.Or(o.MaxNoncesPerKey, 1_000_000)
	if o.now == nil {
		o.now = time.Now
	}
	return o, nil
}

// Store is a [store.Backend] on Redis. It is made by [New].
type Store struct {
	client   *rpc.Client
	opt      Options
	names    names
	servers  *masters.Watcher
	settling *rpc.Script // settle.lua; tests give it another clock
	levels   *rpc.Script // levels.lua; the same
	windows  windows
	policies *policyExchange
	large    sync.Map     // errors of records that are too large, by id of the key
	ahead    atomic.Int64 // Claim.ReplayFloorAhead of the last claim, 0 before the first

	view func() *masters.View // what a request reads of the servers; tests replace it

	life    context.Context // ends with Close
	end     context.CancelFunc
	closed  atomic.Bool
	mu      sync.Mutex // guards what follows
	started bool
	watcher sync.WaitGroup
}

var _ store.Backend = (*Store)(nil)

var errClosed = fmt.Errorf("%w: it was closed", store.ErrUnavailable)

// New checks the options and returns a store. It does no I/O.
func New(opt Options) (*Store, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := rpc.New(opt.Options)
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, opt: opt, names: names{prefix: opt.Prefix}, settling: settleScript, levels: levelsScript}
	s.life, s.end = context.WithCancel(context.Background())
	s.servers = masters.New(s.life, client, masters.Options{
		Prefix: opt.Prefix, Index: s.names.index(), Timeout: opt.ChangeTimeout, Rights: rights, AcceptReplicas: opt.AcceptReplicasUnverified, Now: opt.now,
	})
	s.view = s.servers.View
	s.policies = newPolicyExchange(client, s.names.nodePolicies())
	return s, nil
}

// Start checks the servers and begins to watch them. It fails as
// [masters.Watcher.Begin] does: not because a server is out of reach.
func (s *Store) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return errClosed
	}
	if s.started {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.ChangeTimeout)
	defer cancel()
	if err := s.servers.Begin(ctx); err != nil {
		return err
	}
	s.watcher.Go(s.servers.Watch)
	s.watcher.Go(func() { s.policies.watch(s.life, s.opt.ChangeTimeout) })
	s.started = true
	return nil
}

// Examine returns what each check of the servers finds, without a start. It writes nothing.
func (s *Store) Examine(ctx context.Context) []store.Finding { return s.servers.Examine(ctx) }

// Ready returns nil if a correct request would have been accepted at the last
// check, which is at most about a second old, and the breaker is not open. On a
// cluster it is enough that one of the masters accepts.
func (s *Store) Ready(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	if err := s.servers.Ready(); err != nil {
		return err
	}
	return ctx.Err()
}

// Close ends the watch and closes the connections.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.mu.Lock() // waits for a Start that has begun
	s.end()
	s.mu.Unlock()
	s.watcher.Wait()
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("closing the connections to redis: %w", err)
	}
	return nil
}

// SharePolicy makes this store share the policy with the other gateways, within some
// seconds and then again and again. If theirs differ, [Store.Status] and the log have a
// warning. It may be called again after a reload, and does no I/O.
func (s *Store) SharePolicy(p store.Policy) { s.policies.own.Store(&p) }

// Status returns the place of the store, the result of the last check, and what an
// operator should change: in Details, Degraded lists current troubles of a ready
// store, Warnings possible ones, and Gateways those that the last comparison of
// policies found. It does no I/O.
func (s *Store) Status(ctx context.Context) store.Status {
	status := store.Status{Backend: "redis", Place: s.client.Options.Place(), Ready: true, Details: s.servers.Details(time.Duration(s.ahead.Load()))}
	if err := s.Ready(ctx); err != nil {
		status.Ready, status.Problem = false, err.Error()
	}
	differences := *s.policies.warnings.Load()
	status.Details.Gateways, status.Details.PolicyDifferences = *s.policies.nodes.Load(), len(differences)
	status.Details.Warnings = append(status.Details.Warnings, differences...)
	if own := s.policies.own.Load(); own != nil {
		status.Details.Policy = own.Hash()
	}
	return status
}

// names builds the names of the Redis keys.
//
//	cg:{ID}:k       hash: record, revision, lock, failure count
//	cg:{ID}:b       hash: levels of the rate limits
//	cg:{ID}:n13281  hash: nonces that expire in the same span of time
//	cg:m:NAME       small named value
//	cg:index        sorted set of all ids
//	cg:{cg:index}:changes  sorted set: the feed of changes, in the slot of the index
//	cg:policies     hash: the policy of each gateway
//
// Package masters has others.
type names struct{ prefix string }

func (n names) record(id string) string { return n.prefix + "{" + id + "}:k" }

func (n names) buckets(id string) string { return n.prefix + "{" + id + "}:b" }

func (n names) meta(name string) string { return n.prefix + "m:" + name }

func (n names) index() string { return n.prefix + "index" }

func (n names) changes() string { return n.prefix + "{" + n.index() + "}:changes" }

func (n names) nodePolicies() string { return n.prefix + "policies" }

func (n names) nonces(id string, span int64) string {
	return n.prefix + "{" + id + "}:n" + strconv.FormatInt(span, 10)
}
