package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/singleflight"

	"github.com/card-gateway/card-gateway/store"
)

// servers knows which servers hold the state, up to which moment nonces may
// have been lost on them (the replay floor), and whether they may be used. It
// reads the servers' state about once a second and shares the result with the
// other gateways. It knows nothing about claims and records.
type servers struct {
	*caller
	names   names
	log     *slog.Logger
	timeout time.Duration // of one check
	connect func(addr string) *redis.Client
	network *network
	now     func() time.Time

	view    atomic.Pointer[view]         // the current state
	masters atomic.Pointer[[]serverInfo] // as of the last check

	shared       singleflight.Group // the check that requests wait for
	checking     sync.Mutex         // held during a check
	observations observations       // guarded by checking
	lastRun      *lastRun
	accepts      acceptances
	waiting      atomic.Bool   // a promoted server is not used yet
	unfenced     atomic.Uint64 // what requests have seen emptied since the last check began, as in the view
	lost         atomic.Bool   // the store was emptied since New: a missing key may have been lost

	life context.Context // ends with end
	end  context.CancelFunc
}

func newServers(c *caller, opt *Options) *servers {
	s := &servers{caller: c, names: names{prefix: opt.Prefix}, log: opt.Logger, timeout: opt.ChangeTimeout, connect: opt.node, network: opt.network, now: time.Now, lastRun: newLastRun(opt)}
	s.life, s.end = context.WithCancel(context.Background())
	s.view.Store(&view{problem: errNotChecked})
	s.masters.Store(new([]serverInfo))
	return s
}

// A mode is what a check may do to a store that has no epoch.
type mode int

const (
	// mayBegin makes the epoch of a store that this gateway has never seen in
	// use. A store that was in use before was emptied: an operator must act.
	mayBegin mode = iota
	// mayReplace also makes a new epoch for an emptied store, because an operator
	// writes keys.
	mayReplace
)

// ready returns nil if the servers were fit at the last check, which is at most
// about a second old, and the breaker is not open.
func (s *servers) ready() error {
	if err := s.view.Load().problem; err != nil {
		return err
	}
	if s.cluster == nil && s.breakers.at(theServer).State() == gobreaker.StateOpen {
		return unavailable("redis", gobreaker.ErrOpenState)
	}
	return nil
}

// accepted notes that a request of the key was accepted, at a moment of the server's
// clock in microseconds.
func (s *servers) accepted(id string, now int64) {
	s.lastRun.accepted(now)
	at := 0
	if s.cluster != nil {
		at = slotRange(id)
	}
	s.accepts.note(at, now)
}

// recall reads the note of the process before into the observations of this one.
func (s *servers) recall() error {
	found := s.lastRun.read()
	for identity, text := range found.Servers {
		served, err := parseSlots(text)
		if err != nil {
			return fmt.Errorf("%s: %w", s.lastRun.path, err)
		}
		s.observations.remember([]serverInfo{{identity: identity, slots: served}})
	}
	for i := range s.accepts {
		s.accepts.note(i, found.Accepted)
	}
	return nil
}

// The store is ready exactly when a correct request would be accepted now. A
// cluster is ready while one master accepts. Trouble of the others, and trouble
// that stops only changes of keys, degrades the store.

// check reads the state of all masters, agrees with the other gateways on the
// replay floor, and stores the result as the view.
func (s *servers) check(ctx context.Context, m mode) error {
	s.checking.Lock()
	defer s.checking.Unlock()
	return s.checkLocked(ctx, m)
}

func (s *servers) checkLocked(ctx context.Context, m mode) error {
	unfenced := s.unfenced.Swap(0)
	s.observations.emptied = s.observations.emptied || unfenced != 0
	before := s.view.Load()
	next := &view{known: before.known, floor: before.floor, fences: before.fences, epoch: before.epoch, making: before.making, emptied: before.emptied | unfenced, partial: s.cluster != nil}
	err := s.examine(ctx, m, next)
	next.problem = err
	var unfit *UnfitError
	next.unfit = errors.As(err, &unfit)
	if next.emptied != 0 || errors.Is(err, errEmptied) || before.epoch != "" && next.epoch != before.epoch {
		s.lost.Store(true)
	}
	s.observations.emptied = s.observations.emptied || next.emptied != 0 || errors.Is(err, errEmptied)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return err // the store is closing; the view stays
	}
	if !next.equal(before) {
		s.logChange(before, next)
		s.view.Store(next)
	}
	s.forbidUnfenced()
	return err
}

// examine fills the view with the state of the servers.
func (s *servers) examine(ctx context.Context, m mode, next *view) error {
	masters, err := s.readMasters(ctx)
	if len(masters) == 0 {
		return err
	}
	next.degrade(err)
	for i := range masters {
		if err := masters[i].unfit(); err != nil {
			return err
		}
	}
	s.checkReplay(ctx, masters)
	s.masters.Store(&masters)
	s.observations.clocks.read(masters)
	var right []serverInfo
	var problems []error
	for i := range masters {
		if problem := masters[i].skew(s.now()); problem != nil {
			problems = append(problems, problem)
			continue
		}
		right = append(right, masters[i])
	}
	usable, waiting := s.settled(ctx, right)
	if waiting {
		problems = append(problems, errHandOver)
	}
	if len(usable) > 0 {
		err := s.agree(ctx, m, usable, next)
		if err != nil && !next.servesWithout(err) {
			return err
		}
		next.degrade(err)
	}
	return next.conclude(usable, problems)
}

// agree shares the result with the other gateways and adopts their floors.
func (s *servers) agree(ctx context.Context, m mode, usable []serverInfo, next *view) error {
	if err := s.adopt(ctx, m, s.adoption(usable), next); errors.Is(err, errEmptied) {
		_, findErr := s.missingEpochs(ctx, next)
		return errors.Join(err, findErr)
	} else if err != nil {
		return err
	}
	s.observations.remember(usable)
	s.lastRun.used(usable)
	next.known = joinIdentities(usable)
	if err := s.checkEpochs(ctx, m, next); err != nil {
		return err
	}
	return s.fenceRestored(ctx, next)
}

// fenceRestored raises the floor if the content of an emptied store is back: an
// old copy may have been restored, together with the mark of a store in use.
func (s *servers) fenceRestored(ctx context.Context, next *view) error {
	if s.observations.emptied {
		if _, err := s.runAdopt(ctx, "", adoption{raise: true}, next); err != nil {
			return err
		}
	}
	s.observations.emptied, next.emptied = false, 0
	return nil
}

// logChange logs the difference of two views. It does not log the problem of the
// first check, which Start returns.
func (s *servers) logChange(before, next *view) {
	if withoutNumbers(before.problem) != withoutNumbers(next.problem) && (next.problem == nil || !errors.Is(before.problem, errNotChecked)) {
		if next.problem != nil {
			s.log.Error("redis is not ready", "error", next.problem)
		} else {
			s.log.Info("redis is ready", "servers", next.known)
		}
	}
	if !slices.Equal(before.degraded, next.degraded) && next.problem == nil {
		s.log.Warn("redis is degraded", "problems", next.degraded)
	}
	if before.epoch == "" {
		return
	}
	const lost = "nonces may have been lost; older requests are refused"
	if next.floor > before.floor {
		s.log.Warn(lost, "replay_floor", moment(next.floor))
	} else if next.highest() > before.highest() {
		s.log.Warn(lost, "replay_floor", moment(next.highest()), "slots", next.fences.String())
	}
}

// withoutNumbers returns the text of the problem without those parts that differ each
// time, such as the port of a connection or a moment.
func withoutNumbers(problem error) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, fmt.Sprint(problem))
}

// checkAgain waits for a check that begins now or has begun, unless the view has
// changed since the caller read it. All callers share one check. It has its own
// deadline and continues if they leave.
func (s *servers) checkAgain(ctx context.Context, seen *view) error {
	if s.view.Load() != seen {
		return nil
	}
	done := s.shared.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(s.life, s.timeout)
		defer cancel()
		return nil, s.check(ctx, mayBegin)
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return unavailable("checking the servers", ctx.Err())
	}
}

// watch checks the servers about once a second until life ends.
func (s *servers) watch() {
	for {
		pause := watchPause
		if s.waiting.Load() {
			pause = waitingPause
		}
		if sleep(s.life, pause) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.life, s.timeout)
		_ = s.check(ctx, mayBegin) // the view holds the problem
		cancel()
	}
}

const (
	watchPause   = time.Second
	waitingPause = 50 * time.Millisecond
)

// readMasters reads INFO of all masters. It leaves out those that are out of
// reach; the error is that of one of them, or that a server refuses the user.
func (s *servers) readMasters(ctx context.Context) ([]serverInfo, error) {
	if s.cluster == nil {
		node := s.client.(*redis.Client)
		i, err := readInfo(ctx, node)
		if err != nil {
			return nil, err
		}
		if i.role != "master" {
			s.network.distrust() // the address may lead to another server by now
		}
		i.denied, i.lacks = s.tryWrite(ctx, node, i.slots), s.lacks(ctx, node, i.slots)
		return []serverInfo{i}, nil
	}
	var mu sync.Mutex
	var all []serverInfo
	err := s.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		i, err := readInfo(ctx, node)
		if err != nil {
			return err
		}
		answer, err := node.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS needs a right that existing users lack
		if err != nil {
			return err
		}
		i.slots = ownSlots(i.addr, answer)
		i.denied, i.lacks = s.tryWrite(ctx, node, i.slots), s.lacks(ctx, node, i.slots)
		mu.Lock()
		defer mu.Unlock()
		if i.role == "master" { // otherwise it was just demoted
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
		err = unavailable("checking the cluster", err)
	}
	return all, err
}

// tryWrite returns why the node refuses writes, for example because its memory is
// full, or nil. It sends a write that changes nothing: SET … XX of a missing name.
func (s *servers) tryWrite(ctx context.Context, node *redis.Client, served *slotSet) error {
	name := s.names.missing(served)
	if name == "" {
		return nil
	}
	err := node.SetArgs(ctx, name, "", redis.SetArgs{Mode: "XX"}).Err()
	if errors.Is(err, redis.Nil) || movedElsewhere(err) || isMoving(err) {
		return nil
	}
	return err
}

// sawEmptied notes that the part of the store that holds the name was emptied. From
// then on nothing of it is settled before a check has raised the floor: the next
// check may find an old copy in its place, and nothing missing. It waits for no
// check.
func (s *servers) sawEmptied(name string) {
	bits := uint64(math.MaxUint64)
	if s.cluster != nil {
		bits = 1 << slotRange(name)
	}
	s.lost.Store(true)
	s.unfenced.Or(bits)
	s.forbidUnfenced()
}

// forbidUnfenced notes in the view what requests have seen emptied since the last
// check began.
func (s *servers) forbidUnfenced() {
	for {
		before := s.view.Load()
		next := *before
		if next.emptied |= s.unfenced.Load(); next.emptied == before.emptied || s.view.CompareAndSwap(before, &next) {
			return
		}
	}
}

// initialised reports whether the part of the store that holds the name is in
// use. If this gateway has never seen the store in use, or if another gateway has
// put an emptied store into use again, it checks the servers first, so that the
// view has the current epoch and replay floor. A store that is being made is in use
// nowhere. A part that was in use and is no longer there was emptied.
func (s *servers) initialised(ctx context.Context, name string) (bool, error) {
	if s.view.Load().making {
		return false, errBeingMade
	}
	epoch, err := s.epochAt(ctx, name)
	known := s.view.Load().epoch
	if err != nil {
		return false, err
	}
	if known != "" && epoch == "" {
		s.sawEmptied(name)
	}
	if known != "" && (epoch == "" || epoch == known) {
		return epoch != "", nil
	}
	if err := s.check(ctx, mayBegin); err != nil {
		return false, err
	}
	epoch, err = s.epochAt(ctx, name)
	return epoch != "", err
}

// initialise makes sure that the store is in use before keys are written.
func (s *servers) initialise(ctx context.Context, name string) error {
	there, err := s.initialised(ctx, name)
	if err != nil && !errors.Is(err, errEmptied) {
		return err
	}
	if there && s.view.Load().epoch != "" {
		return nil
	}
	return s.check(ctx, mayReplace)
}
