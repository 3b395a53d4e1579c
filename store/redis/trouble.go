package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// The store is ready exactly when a correct request would be accepted now. On a
// cluster that is as long as one master accepts; what is wrong with the others,
// or stops changes of keys only, degrades it.

// degrade notes trouble that leaves the store ready.
func (v *view) degrade(err error) {
	if err != nil {
		v.degraded = append(v.degraded, err.Error())
	}
}

// examine fills the view with what it finds.
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
	s.memory.readClocks(masters)
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

// conclude returns the first problem when no master accepts requests. Else all
// of them degrade the store.
func (v *view) conclude(usable []serverInfo, problems []error) error {
	accepting := 0
	for i := range usable {
		if problem := usable[i].refusing(); problem != nil {
			problems = append(problems, problem)
		} else {
			accepting++
		}
	}
	if accepting == 0 {
		return problems[0]
	}
	for _, problem := range problems {
		v.degrade(problem)
	}
	return nil
}

// servesWithout reports whether requests are accepted in spite of the error,
// which came from the servers as a whole: on a cluster, where another master
// holds what they share, or where another part was emptied.
func (v *view) servesWithout(err error) bool {
	var unfit *UnfitError
	return v.known != "" && v.partial && !errors.As(err, &unfit) && v.emptied != math.MaxUint64
}

// agree agrees with the other gateways on what was found.
func (s *servers) agree(ctx context.Context, m mode, usable []serverInfo, next *view) error {
	if err := s.adopt(ctx, m, s.adoption(usable), next); errors.Is(err, errEmptied) {
		_, findErr := s.missingEpochs(ctx, next)
		return errors.Join(err, findErr)
	} else if err != nil {
		return err
	}
	s.memory.remember(usable)
	s.mark.used(usable)
	next.known = identities(usable)
	if err := s.checkEpochs(ctx, m, next); err != nil {
		return err
	}
	return s.fenceRestored(ctx, next)
}

// skew returns a problem when the server's clock is too far from the gateway's.
func (i *serverInfo) skew(now time.Time) error {
	if off := i.now.Sub(now); off.Abs() > maxSkew && !i.now.IsZero() {
		return fmt.Errorf("%w: the clock of redis at %s is %v off ours, at most %v are allowed", store.ErrUnavailable, i.addr, off.Round(time.Second), maxSkew)
	}
	return nil
}

// refusing returns why the master accepts no request, or nil. One that has heard
// of none of its replicas for long may have another one in its place.
func (i *serverInfo) refusing() error {
	switch {
	case isFull(i.denied):
		return fmt.Errorf("%w: redis at %s: %w", store.ErrFull, i.addr, i.denied)
	case i.denied != nil:
		return fmt.Errorf("%w: redis at %s takes no writes: %w", store.ErrUnavailable, i.addr, i.denied)
	case time.Duration(i.silent)*time.Second > maxLag:
		return fmt.Errorf("%w: no replica has answered redis at %s for over %v", store.ErrUnavailable, i.addr, maxLag)
	default:
		return nil
	}
}

// tryWrite returns why the node takes no writes, for want of memory say, or nil.
// It sends a write that changes nothing: SET of a missing name, if it exists.
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

// missing returns a name in one of the slots that is never written, or "".
func (n names) missing(served *slotSet) string {
	for i := range slots { // far more than are needed
		if tag := strconv.Itoa(i); served.has(slot(tag)) {
			return n.prefix + "{" + tag + "}:w"
		}
	}
	return ""
}
