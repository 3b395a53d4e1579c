package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// A view is what is known of the servers. It is replaced, never changed.
type view struct {
	known   string // identities of the masters, as settle.lua compares them
	floor   int64  // replay floor in microseconds, without replay_floor_ahead; 0: none
	epoch   string // of the store; empty until it was seen
	problem error  // why the store is not ready
	unfit   bool   // the problem forbids every settle
}

func (v *view) equal(o *view) bool {
	return v.known == o.known && v.floor == o.floor && v.epoch == o.epoch && v.unfit == o.unfit &&
		fmt.Sprint(v.problem) == fmt.Sprint(o.problem)
}

// What a look may do to a store that has no epoch.
type lookMode int

const (
	// lookNormal makes the epoch of a store that nobody has seen in use. If it
	// was in use, it was emptied: that is for an operator to deal with.
	lookNormal lookMode = iota
	// lookCreate makes the epoch anew, because an operator writes keys.
	lookCreate
)

var (
	errEmptied = fmt.Errorf("%w: redis was emptied; create or import the keys again", store.ErrUnavailable)
	errLost    = fmt.Errorf("%w: the key is not there, and redis was emptied since this gateway started; import the key again, or restart the gateway when all keys are there", store.ErrUnavailable)
)

// watch looks at the servers about once a second until the context ends.
func (s *Store) watch(ctx context.Context) {
	for sleep(ctx, watchPause) == nil {
		look, cancel := context.WithTimeout(ctx, s.opt.ChangeTimeout)
		_ = s.look(look, lookNormal) // the view holds the problem
		cancel()
	}
}

const watchPause = time.Second

// lookAgain waits for a look at the servers that begins now or goes on, unless
// the view is another one already. All who ask share one look, which has a
// deadline of its own and goes on when they have to leave.
func (s *Store) lookAgain(ctx context.Context, seen *view) error {
	if s.view.Load() != seen {
		return nil
	}
	done := s.looks.DoChan("", func() (any, error) {
		look, cancel := context.WithTimeout(s.life, s.opt.ChangeTimeout)
		defer cancel()
		return nil, s.look(look, lookNormal)
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return unavailable("looking at the servers", ctx.Err())
	}
}

func (s *Store) look(ctx context.Context, mode lookMode) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	return s.lookLocked(ctx, mode)
}

// lookLocked looks at all masters, agrees with the other gateways on the
// replay floor, and makes that the view.
func (s *Store) lookLocked(ctx context.Context, mode lookMode) error {
	before := s.view.Load()
	next := &view{known: before.known, floor: before.floor, epoch: before.epoch}
	err := s.examine(ctx, mode, next)
	next.problem = err
	var unfit *UnfitError
	next.unfit = errors.As(err, &unfit)
	if errors.Is(err, errEmptied) || before.epoch != "" && next.epoch != before.epoch {
		s.lost.Store(true)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return err // Close; the view stays
	}
	if !next.equal(before) {
		s.tell(before, next)
		s.view.Store(next)
	}
	return err
}

// tell logs what has changed. The problem of the first look is for Start to
// tell.
func (s *Store) tell(before, next *view) {
	if fmt.Sprint(before.problem) != fmt.Sprint(next.problem) && (next.problem == nil || !errors.Is(before.problem, errNotLooked)) {
		if next.problem != nil {
			s.log.Error("redis is not ready", "error", next.problem)
		} else {
			s.log.Info("redis is ready", "servers", next.known)
		}
	}
	if next.floor > before.floor && before.epoch != "" {
		s.log.Warn("nonces may have been lost; older requests are refused", "replay_floor", moment(next.floor))
	}
}

// examine fills the view with what it finds.
func (s *Store) examine(ctx context.Context, mode lookMode, next *view) error {
	servers, err := s.gather(ctx)
	if len(servers) == 0 {
		return err
	}
	raise := false
	for i := range servers {
		if err := servers[i].check(); err != nil {
			return err
		}
		raise = s.memory.evictedMore(&servers[i]) || raise
	}
	s.servers.Store(&servers)
	if problem := s.skew(servers); problem != nil {
		s.memory.skewed = true
		return problem
	}
	a := adoption{raise: raise || s.memory.skewed, least: s.leastFloor(servers)}
	for i := range servers {
		a.identities = append(a.identities, servers[i].identity)
	}
	if err := s.adopt(ctx, mode, a, next); err != nil {
		return err
	}
	s.memory.skewed = false
	s.memory.remember(a.identities)
	next.known = strings.Join(a.identities, ",")
	return s.checkEpochs(ctx, mode, next)
}

// gather reads INFO of all masters. Those out of reach are left out; the error
// is of one of them, or says that a server refuses us.
func (s *Store) gather(ctx context.Context) ([]serverInfo, error) {
	if s.cluster == nil {
		i, err := readInfo(ctx, s.client.(*redis.Client))
		if err != nil {
			return nil, err
		}
		return []serverInfo{i}, nil
	}
	var mu sync.Mutex
	var all []serverInfo
	err := s.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		i, err := readInfo(ctx, node)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if i.role == "master" { // else it was demoted just now
			all = append(all, i)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b serverInfo) int { return strings.Compare(a.identity, b.identity) })
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: the cluster has no master", store.ErrUnavailable)
	}
	if err != nil {
		if unfit := refusal("", err); unfit != nil {
			return nil, unfit
		}
		err = unavailable("looking at the cluster", err)
	}
	return all, err
}

func readInfo(ctx context.Context, node *redis.Client) (serverInfo, error) {
	addr := node.Options().Addr
	reply, err := node.Info(ctx).Result()
	if err != nil {
		if unfit := refusal(addr, err); unfit != nil {
			return serverInfo{}, unfit
		}
		return serverInfo{}, unavailable("looking at "+addr, err)
	}
	i, err := parseInfo(addr, reply)
	if err != nil {
		return i, unavailable("looking at "+addr, err)
	}
	if i.loading {
		return i, fmt.Errorf("%w: redis at %s is loading its data", store.ErrUnavailable, addr)
	}
	return i, nil
}

// skew returns a problem when a server's clock is too far from ours.
func (s *Store) skew(servers []serverInfo) error {
	if s.opt.claimClock {
		return nil
	}
	now := time.Now()
	for i := range servers {
		if off := servers[i].now.Sub(now); off.Abs() > maxSkew && !servers[i].now.IsZero() {
			return fmt.Errorf("%w: the clock of redis at %s is %v off ours, at most %v are allowed", store.ErrUnavailable, servers[i].addr, off.Round(time.Millisecond), maxSkew)
		}
	}
	return nil
}

// leastFloor is how far the floor must reach for what this gateway has
// accepted itself: up to its last acceptance, if it comes to a server that it
// did not use then.
func (s *Store) leastFloor(servers []serverInfo) int64 {
	if len(s.memory.identities) == 0 {
		return 0
	}
	for i := range servers {
		id := servers[i].identity
		if !s.memory.identities[id] || s.cluster == nil && s.memory.last != id {
			return s.lastAccept.Load()
		}
	}
	return 0
}
