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
// The files use each other in one direction. From the ground up:
//
//   - bounds, wire, errors, slots, fences, names: values, and their text forms
//   - options, network, lastmaster, client, queue, breaker, scripts, call: one command to one server
//   - info: what a server reports, and which servers are refused
//   - clocks, mark, acceptances, memory, view: what is known of the servers
//   - servers, masters, handover, aof, agree, epoch, check, initialise: how that
//     is found out and shared with the other gateways
//   - windows, arguments, settle, levels: a request
//   - records, change, meta, policy, status: keys, and what operators see
package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

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
	if err := s.servers.check(ctx, onlyObserve); err != nil {
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
