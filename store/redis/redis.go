// Package redis keeps the state of several gateways in Redis: one server, a
// Sentinel set or a Cluster. A nonce that one gateway accepted is used on all,
// they share each limit, and a changed key applies to the next request everywhere.
// A request costs one script call.
//
// All Redis keys of one API key have the hash tag {id}, so they are in one slot.
// settle.lua makes the decisions of a request. adopt.lua makes those about the
// servers: the epoch, the replay floor and the fences. docs/redis.md describes
// what is promised through a failover.
//
// The files, from the ground up:
//
//   - wire, slots: values and their text forms, names and bounds
//   - options, client, replies, breaker, call: one command to one server, at most once
//   - info: what a server reports, and which servers are refused
//   - view: what is known of the servers
//   - servers, agree: how that is found out and shared with the other gateways
//   - settle, verdict: a request
//   - records, policy, redis: keys, and what operators see
package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// Store is a [store.Backend] on Redis. It is made by [New].
type Store struct {
	*caller
	opt      Options
	log      *slog.Logger
	names    names
	servers  *servers
	settling *script // settle.lua; tests give it another clock
	levels   *script // levels.lua; the same
	windows  windows
	policies *policyExchange
	ahead    atomic.Int64 // Claim.ReplayFloorAhead of the last claim, 0 before the first

	closed  atomic.Bool
	mu      sync.Mutex // guards what follows
	started bool
	watcher sync.WaitGroup
}

var _ store.Backend = (*Store)(nil)

// New checks the options and returns a store. It does no I/O.
func New(opt Options) (*Store, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := opt.newClient()
	if err != nil {
		return nil, err
	}
	s := &Store{caller: newCaller(client, &opt), opt: opt, log: opt.Logger, names: names{prefix: opt.Prefix}, settling: settleScript, levels: levelsScript}
	s.servers = newServers(s.caller, &s.opt)
	s.policies = newPolicyExchange(s.caller, &s.opt)
	return s, nil
}

// Start checks the servers and begins to watch them. An error means that a
// server was reached and is unfit: it may evict, is a replica or too old, would
// lose data at a restart, or refuses the user. A server that is out of reach is
// not an error.
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
	if err := s.servers.recall(); err != nil {
		s.log.Error("what this gateway accepted before it ended is not known", "error", err)
	}
	if err := s.servers.check(ctx, mayBegin); err != nil {
		var unfit *UnfitError
		if errors.As(err, &unfit) {
			return err
		}
		s.log.Warn("redis is out of reach; requests are refused until it answers", "error", err)
	} else if err := s.servers.refuseForgetful(); err != nil {
		return err
	}
	s.watcher.Go(s.servers.watch)
	s.watcher.Go(func() { s.policies.watch(s.servers.life, s.opt.ChangeTimeout) })
	s.started = true
	return nil
}

// Ready returns nil if a correct request would have been accepted at the last
// check, which is at most about a second old, and the breaker is not open. On a
// cluster it is enough that one of the masters accepts.
func (s *Store) Ready(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	if err := s.servers.ready(); err != nil {
		return err
	}
	return ctx.Err()
}

// initialise makes sure that the store is in use before a key is written.
func (s *Store) initialise(ctx context.Context, name string) error {
	if s.closed.Load() {
		return errClosed
	}
	return s.servers.initialise(ctx, name)
}

// Close ends the watch and closes the connections.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.mu.Lock() // waits for a Start that has begun
	s.servers.end()
	s.mu.Unlock()
	s.watcher.Wait()
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("closing the connections to redis: %w", err)
	}
	return nil
}

// SharePolicy makes this store share the policy with the other gateways, at once
// and then once a minute. If theirs differ, [Store.Status] and the log have a
// warning. It may be called again after a reload, and does no I/O.
func (s *Store) SharePolicy(p Policy) {
	s.policies.own.Store(&p)
	select {
	case s.policies.changed <- struct{}{}:
	default: // it is known already that there is news
	}
}

// Status returns the place of the store, the result of the last check, and what an
// operator should change: in Details, Degraded lists current troubles of a ready
// store, Warnings possible ones, and Gateways those that the last comparison of
// policies found. It does no I/O.
func (s *Store) Status(ctx context.Context) store.Status {
	v := s.servers.view.Load()
	status := store.Status{Backend: "redis", Place: s.opt.place(), Ready: true}
	if err := s.Ready(ctx); err != nil {
		status.Ready, status.Problem = false, err.Error()
	}
	found := *s.servers.masters.Load()
	troubles := append([]string{}, v.degraded...)
	if slices.ContainsFunc(found, func(i serverInfo) bool { return i.nearFull() }) {
		troubles = append(troubles, "nonces")
	}
	servers := make([]store.Server, len(found))
	for i := range found {
		info := &found[i]
		servers[i] = store.Server{
			Address: info.addr, Version: info.version, Replicas: info.replicas,
			UsedMemory: info.usedMemory, MaxMemory: info.maxMemory,
		}
	}
	differences := *s.policies.warnings.Load()
	status.Details = store.Details{
		Topology: s.opt.topology(), Servers: servers, Gateways: *s.policies.nodes.Load(), Degraded: troubles,
		Warnings: append(s.warnings(found), differences...), PolicyDifferences: len(differences),
		ReplayFloor: moment(max(v.highest(), 0)),
	}
	if own := s.policies.own.Load(); own != nil {
		status.Details.Policy = own.Hash()
	}
	return status
}

// warnings lists what an operator should change, without differences between
// gateways.
func (s *Store) warnings(found []serverInfo) []string {
	list := []string{}
	warn := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for i := range found {
		info := &found[i]
		if !info.persistent {
			warn("%s keeps no append-only file: a restart loses keys, nonces and locks (set appendonly yes)", info.addr)
		}
		if !info.guarded && (info.replicas > 0 || s.opt.topology() == topologySentinel) {
			warn("%s goes on without its replicas: after a network cut, two masters may accept the same request (set min-replicas-to-write 1 and min-replicas-max-lag 3)", info.addr)
		}
		if ahead := time.Duration(s.ahead.Load()); info.replicas > 0 && 0 < ahead && ahead < maxLag+time.Second {
			warn("replay_floor_ahead is %v: set it to at least %v where masters have replicas, which is how long one that is cut off may go on", ahead, maxLag+time.Second)
		}
		if info.forgets != "" {
			warn("%s: %s", info.addr, info.forgets)
		}
		if info.maxMemory == 0 {
			warn("%s has no maxmemory: nonces are bounded by the machine's memory alone", info.addr)
		}
	}
	if s.opt.RuntimeDir == "" && s.opt.topology() != topologySingle {
		warn("there is no runtime directory: after a network cut and the end of this process, it is not known what it accepted on a master that was replaced")
	}
	if problem := *s.servers.lastRun.problem.Load(); problem != "" {
		warn("%s", problem)
	}
	return list
}
