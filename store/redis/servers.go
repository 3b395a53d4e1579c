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

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/singleflight"
)

// servers knows which servers hold the state, up to which moment nonces may
// have been lost on them (the replay floor), and whether they may be used. It
// reads the servers' state about once a second and shares with the other
// gateways what it finds. It knows nothing of claims and records.
type servers struct {
	*caller
	names   names
	log     *slog.Logger
	timeout time.Duration // of one check
	connect func(addr string) *redis.Client
	now     func() time.Time

	view    atomic.Pointer[view]         // what is known
	masters atomic.Pointer[[]serverInfo] // as of the last check

	shared     singleflight.Group // the check that requests wait for
	checking   sync.Mutex         // held during a check
	memory     memory             // guarded by checking
	mark       *mark
	lastAccept atomic.Int64 // server's clock, microseconds
	waiting    atomic.Bool  // a promoted server is not used yet
	lost       atomic.Bool  // the store was emptied since New: a missing key may have been lost

	life context.Context // ends with end
	end  context.CancelFunc
}

func newServers(c *caller, opt *Options) *servers {
	s := &servers{caller: c, names: names{prefix: opt.Prefix}, log: opt.Logger, timeout: opt.ChangeTimeout, connect: opt.node, now: time.Now, mark: newMark(opt)}
	s.life, s.end = context.WithCancel(context.Background())
	s.view.Store(&view{problem: errNotChecked})
	s.masters.Store(new([]serverInfo))
	return s
}

// A mode says what a check may do to a store that has no epoch.
type mode int

const (
	// observe makes the epoch of a store that nobody has seen in use. If it
	// was in use, it was emptied: an operator must deal with that.
	observe mode = iota
	// create makes the epoch anew, because an operator writes keys.
	create
)

// ready returns nil when the servers were fit at the last check, which is at
// most about a second old, and calls come through.
func (s *servers) ready() error {
	if err := s.view.Load().problem; err != nil {
		return err
	}
	if s.cluster == nil && s.breakers.at(theServer).State() == gobreaker.StateOpen {
		return unavailable("redis", gobreaker.ErrOpenState)
	}
	return nil
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
		_ = s.check(ctx, observe) // the view holds the problem
		cancel()
	}
}

const (
	watchPause   = time.Second
	waitingPause = 50 * time.Millisecond
)

// checkAgain waits for a check that begins now or is under way, unless the
// view has changed since it was seen. All callers share one check, which has a
// deadline of its own and goes on when they have to leave.
func (s *servers) checkAgain(ctx context.Context, seen *view) error {
	if s.view.Load() != seen {
		return nil
	}
	done := s.shared.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(s.life, s.timeout)
		defer cancel()
		return nil, s.check(ctx, observe)
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return unavailable("checking the servers", ctx.Err())
	}
}

// check reads the state of all masters, agrees with the other gateways on the
// replay floor, and makes that the view.
func (s *servers) check(ctx context.Context, m mode) error {
	s.checking.Lock()
	defer s.checking.Unlock()
	return s.checkLocked(ctx, m)
}

func (s *servers) checkLocked(ctx context.Context, m mode) error {
	before := s.view.Load()
	next := &view{known: before.known, floor: before.floor, fences: before.fences, epoch: before.epoch, emptied: before.emptied, partial: s.cluster != nil}
	err := s.examine(ctx, m, next)
	next.problem = err
	var unfit *UnfitError
	next.unfit = errors.As(err, &unfit)
	if next.emptied != 0 || errors.Is(err, errEmptied) || before.epoch != "" && next.epoch != before.epoch {
		s.lost.Store(true)
	}
	s.memory.emptied = s.memory.emptied || next.emptied != 0 || errors.Is(err, errEmptied)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return err // the store is closing; the view stays
	}
	if !next.equal(before) {
		s.logChange(before, next)
		s.view.Store(next)
	}
	return err
}

// logChange logs the difference of two views. The problem of the first check
// is left to Start.
func (s *servers) logChange(before, next *view) {
	if fmt.Sprint(before.problem) != fmt.Sprint(next.problem) && (next.problem == nil || !errors.Is(before.problem, errNotChecked)) {
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

// fenceRestored raises the floor when what was emptied is there again: it may
// have been put back as it was some time ago, together with its mark.
func (s *servers) fenceRestored(ctx context.Context, next *view) error {
	if s.memory.emptied {
		if _, err := s.runAdopt(ctx, "", adoption{raise: true}, next); err != nil {
			return err
		}
	}
	s.memory.emptied, next.emptied = false, 0
	return nil
}

// accepted notes the server's time of an acceptance, in microseconds.
func (s *servers) accepted(now int64) {
	s.mark.accepted(now)
	for {
		last := s.lastAccept.Load()
		if now <= last || s.lastAccept.CompareAndSwap(last, now) {
			return
		}
	}
}
