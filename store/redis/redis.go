// Package redis keeps the state of several gateways in Redis: one server, a
// Sentinel set or a Cluster. A nonce that one gateway accepted is spent on
// all, a limit is one limit, and a changed key holds for the next request
// everywhere, for one script call per request.
//
// All Redis keys of one API key carry the hash tag {id} and so share a slot.
// What one call decides stands in settle.lua; docs/redis.md says what is
// promised through a failover.
package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/singleflight"

	"github.com/card-gateway/card-gateway/store"
)

// Store is a [store.Backend] on Redis. It is made by [New].
type Store struct {
	opt      Options
	log      *slog.Logger
	client   redis.UniversalClient
	cluster  *redis.ClusterClient // nil unless it is one
	names    names
	tags     tags
	breakers breakers

	view    atomic.Pointer[view]         // what is known of the servers
	servers atomic.Pointer[[]serverInfo] // the masters at the last look
	looks   singleflight.Group           // of requests that met a server that is not known
	looking sync.Mutex                   // held while the servers are looked at
	memory  memory                       // guarded by looking

	lastAccept atomic.Int64 // server's clock, microseconds
	lost       atomic.Bool  // the store was emptied since New: who is not there may have been

	closed  atomic.Bool
	mu      sync.Mutex // guards what follows
	started bool
	watcher sync.WaitGroup

	life context.Context // ends with Close
	end  context.CancelFunc
}

var _ store.Backend = (*Store)(nil)

// New checks the options and returns a store. It does no I/O.
func New(opt Options) (*Store, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opt: opt, log: opt.Logger, names: names{prefix: opt.Prefix}, tags: newTags(), breakers: breakers{log: opt.Logger}}
	if s.client, err = opt.newClient(); err != nil {
		return nil, err
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.cluster, _ = s.client.(*redis.ClusterClient)
	s.view.Store(&view{problem: errNotLooked})
	s.servers.Store(new([]serverInfo))
	return s, nil
}

// Start looks at the servers and begins to watch them. An error means that a
// server was reached and is unfit: it may evict, is a replica or too old, or
// refuses our user. Servers out of reach are no error.
func (s *Store) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return errClosed
	}
	if s.started {
		return nil
	}
	look, cancel := context.WithTimeout(ctx, s.opt.ChangeTimeout)
	defer cancel()
	if err := s.look(look, lookNormal); err != nil {
		var unfit *UnfitError
		if errors.As(err, &unfit) {
			return err
		}
		s.log.Warn("redis is out of reach; requests are refused until it answers", "error", err)
	}
	s.watcher.Go(func() { s.watch(s.life) })
	s.started = true
	return nil
}

// Ready returns nil when the servers were fit at the last look, which is at
// most about a second old, and calls come through.
func (s *Store) Ready(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	if err := s.view.Load().problem; err != nil {
		return err
	}
	if s.cluster == nil && s.breakers.at(theServer).State() == gobreaker.StateOpen {
		return unavailable("redis", gobreaker.ErrOpenState)
	}
	return ctx.Err()
}

// Close ends the watch and closes the connections.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.mu.Lock() // a Start that is under way comes first
	s.end()
	s.mu.Unlock()
	s.watcher.Wait()
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("closing the connections to redis: %w", err)
	}
	return nil
}

var (
	errClosed    = fmt.Errorf("%w: it was closed", store.ErrUnavailable)
	errNotLooked = fmt.Errorf("%w: redis was not reached yet", store.ErrUnavailable)
)

// unavailable says that an answer could not be had, and why.
func unavailable(doing string, err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, doing, err)
}
