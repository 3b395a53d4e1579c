package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

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
	s.memory.emptied = s.memory.emptied || unfenced != 0
	before := s.view.Load()
	next := &view{known: before.known, floor: before.floor, fences: before.fences, epoch: before.epoch, making: before.making, emptied: before.emptied | unfenced, partial: s.cluster != nil}
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
	s.memory.clocks.read(masters)
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
	s.memory.remember(usable)
	s.mark.used(usable)
	next.known = joinIdentities(usable)
	if err := s.checkEpochs(ctx, m, next); err != nil {
		return err
	}
	return s.fenceRestored(ctx, next)
}

// fenceRestored raises the floor if the content of an emptied store is back: an
// old copy may have been restored, together with the mark of a store in use.
func (s *servers) fenceRestored(ctx context.Context, next *view) error {
	if s.memory.emptied {
		if _, err := s.runAdopt(ctx, "", adoption{raise: true}, next); err != nil {
			return err
		}
	}
	s.memory.emptied, next.emptied = false, 0
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
		return nil, s.check(ctx, onlyObserve)
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
		_ = s.check(ctx, onlyObserve) // the view holds the problem
		cancel()
	}
}

const (
	watchPause   = time.Second
	waitingPause = 50 * time.Millisecond
)
