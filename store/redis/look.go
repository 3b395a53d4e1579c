package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	servers []serverInfo
}

func (v *view) refuses() bool { return v.unfit }

func (v *view) equal(o *view) bool {
	return v.known == o.known && v.floor == o.floor && v.epoch == o.epoch && v.unfit == o.unfit &&
		fmt.Sprint(v.problem) == fmt.Sprint(o.problem)
}

// memory is what this gateway has seen of the servers since it began.
type memory struct {
	identities map[string]bool
	last       string // identity of the master, where there is one
	evicted    map[string]int64
	skewed     bool // the server's clock was off at the last look
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

var errEmptied = fmt.Errorf("%w: redis was emptied; create or import the keys again", store.ErrUnavailable)

// gone is the error for what is not there because the store was emptied.
func (s *Store) gone() error { return errEmptied }

// orGone returns the reason for an error that an unfit server explains better.
func (s *Store) orGone(err error) error {
	if v := s.view.Load(); v.unfit {
		return unavailable("redis", v.problem)
	}
	return err
}

// watch looks at the servers about once a second until the context ends.
func (s *Store) watch(ctx context.Context) {
	for sleep(ctx, watchPause) == nil {
		look, cancel := context.WithTimeout(ctx, s.opt.ChangeTimeout)
		_ = s.look(look, lookNormal) // the view holds the problem
		cancel()
	}
}

const watchPause = time.Second

// lookAgain looks at the servers unless somebody else has done it since the
// view was current.
func (s *Store) lookAgain(ctx context.Context, seen *view) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.view.Load() != seen {
		return nil
	}
	return s.lookLocked(ctx, lookNormal)
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
	next := &view{known: before.known, floor: before.floor, epoch: before.epoch, servers: before.servers}
	err := s.examine(ctx, mode, next)
	next.problem = err
	var unfit *UnfitError
	next.unfit = errors.As(err, &unfit)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return err // Close; the view stays
	}
	if !next.equal(before) {
		s.tell(before, next)
		s.view.Store(next)
	}
	return err
}

func (s *Store) tell(before, next *view) {
	if fmt.Sprint(before.problem) != fmt.Sprint(next.problem) {
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
	next.servers = servers
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

func (m *memory) remember(identities []string) {
	if m.identities == nil {
		m.identities = make(map[string]bool)
	}
	for _, id := range identities {
		m.identities[id] = true
	}
	m.last = identities[len(identities)-1]
}

// evictedMore reports whether the server has evicted since the last look.
func (m *memory) evictedMore(i *serverInfo) bool {
	if m.evicted == nil {
		m.evicted = make(map[string]int64)
	}
	last, known := m.evicted[i.run]
	m.evicted[i.run] = i.evicted
	return known && i.evicted > last
}

// An adoption is what is told to the other gateways.
type adoption struct {
	identities []string
	least      int64
	raise      bool
}

// adopt agrees on epoch and floor. As long as nothing has changed it only
// reads them.
func (s *Store) adopt(ctx context.Context, mode lookMode, a adoption, next *view) error {
	before := s.view.Load().epoch
	if s.memory.nothingNew(&a, s.cluster != nil) {
		if ok, err := s.readFloor(ctx, next); ok || err != nil {
			return err
		}
	}
	found, err := s.runAdopt(ctx, "", a, next)
	if err != nil {
		return err
	}
	switch {
	case !found && before == "":
		_, err = s.runAdopt(ctx, newEpoch(), a, next)
	case !found && mode == lookCreate:
		a.raise = true
		_, err = s.runAdopt(ctx, newEpoch(), a, next)
	case !found:
		err = errEmptied
	case before != "" && next.epoch != before: // emptied, and made anew by another gateway
		a.raise = true
		_, err = s.runAdopt(ctx, "", a, next)
	}
	return err
}

// nothingNew reports whether the adoption would change nothing.
func (m *memory) nothingNew(a *adoption, cluster bool) bool {
	if a.raise || a.least > 0 {
		return false
	}
	for _, id := range a.identities {
		if !m.identities[id] || !cluster && m.last != id {
			return false
		}
	}
	return true
}

// readFloor takes over a floor that another gateway has raised. It reports
// false when the epoch is not the one of the view. The floor never falls, so
// that a wrong reply does no harm.
func (s *Store) readFloor(ctx context.Context, next *view) (bool, error) {
	values, err := s.client.HMGet(ctx, s.names.servers(), "epoch", "floor").Result()
	if err != nil {
		if unfit := refusal("", err); unfit != nil {
			return false, unfit
		}
		return false, unavailable("looking at the store", err)
	}
	if len(values) != 2 || next.epoch == "" || values[0] != any(next.epoch) {
		return false, nil
	}
	if text, ok := values[1].(string); ok {
		floor, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false, unavailable("reading the replay floor", err)
		}
		next.floor = max(next.floor, floor)
	}
	return true, nil
}

func (s *Store) runAdopt(ctx context.Context, epoch string, a adoption, next *view) (found bool, err error) {
	args := []any{epoch, decimal(a.least), bit(a.raise)}
	for _, id := range a.identities {
		args = append(args, id)
	}
	reply, err := s.runOn(ctx, s.client, call{script: adoptScript, keys: []string{s.names.servers()}, args: args})
	if err != nil {
		if unfit := refusal("", err); unfit != nil {
			return false, unfit
		}
		return false, unavailable("looking at the store", err)
	}
	if len(reply) == 0 {
		return false, nil
	}
	if next.epoch, err = text(reply, 0); err != nil {
		return false, err
	}
	floor, err := text(reply, 1)
	if err != nil {
		return false, err
	}
	if next.floor, err = strconv.ParseInt(floor, 10, 64); err != nil {
		return false, unavailable("reading the replay floor", err)
	}
	return true, nil
}

func newEpoch() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
