package redis

import (
	"context"
	"errors"
	"math"

	"github.com/redis/go-redis/v9"
)

// The epoch marks a store that is in use, so that one which lost everything is
// not taken for one that has no keys. On a cluster every range of slots has a
// copy of it, because a single node can be emptied.

// checkEpochs reads the copies on a cluster. Missing copies are
// made with a new store, and in mode create also with an emptied one.
func (s *servers) checkEpochs(ctx context.Context, m mode, next *view) error {
	if s.cluster == nil {
		return nil
	}
	created := next.epoch != s.view.Load().epoch && m == observe && s.view.Load().epoch == ""
	missing, err := s.missingEpochs(ctx, next)
	if err != nil || len(missing) == 0 {
		return err
	}
	if m != create && !(created && len(missing) == slotRanges) {
		return errEmptied
	}
	if m == create {
		s.lost.Store(s.lost.Load() || s.view.Load().epoch != "")
		if _, err := s.runAdopt(ctx, "", adoption{raise: true}, next); err != nil {
			return err
		}
	}
	for _, name := range missing {
		if _, _, err := s.value(ctx, name, "put", next.epoch); err != nil {
			return err
		}
	}
	return nil
}

// missingEpochs returns the names of the missing copies, and notes in the view
// which ranges they stand for. A copy on a node that is out of reach is what it
// was before. Without a cluster there are no copies, and all is missing.
func (s *servers) missingEpochs(ctx context.Context, next *view) ([]string, error) {
	if s.cluster == nil {
		next.emptied = math.MaxUint64
		return nil, nil
	}
	names := s.names.epochs()
	pipe := s.cluster.Pipeline()
	found := make([]*redis.IntCmd, len(names))
	for i, name := range names {
		found[i] = pipe.Exists(ctx, name)
	}
	_, _ = pipe.Exec(ctx) // each command holds its error
	var missing []string
	for i, name := range names {
		n, err := found[i].Result()
		if unfit := refusal("", err); unfit != nil {
			return nil, unfit
		}
		switch {
		case err != nil:
		case n == 0:
			missing = append(missing, name)
			next.emptied |= 1 << i
		default:
			next.emptied &^= 1 << i
		}
	}
	return missing, nil
}

// initialised reports whether the part of the store where the name belongs is
// in use. A store that nobody has seen in use gets an epoch. One that was
// emptied and put into use again by another gateway is checked first, so
// that the view holds its replay floor.
func (s *servers) initialised(ctx context.Context, name string) (bool, error) {
	epoch, err := s.epochAt(ctx, name)
	known := s.view.Load().epoch
	if err != nil || known != "" && (epoch == "" || epoch == known) {
		return epoch != "", err
	}
	if err := s.check(ctx, observe); err != nil {
		return false, err
	}
	epoch, err = s.epochAt(ctx, name)
	return epoch != "", err
}

// epochAt returns the epoch of that part, empty when there is none. The copies
// on a cluster are not replaced when another part is emptied, so there they
// tell only whether there is one.
func (s *servers) epochAt(ctx context.Context, name string) (string, error) {
	if s.cluster == nil {
		var found view
		_, err := s.runAdopt(ctx, "", adoption{}, &found)
		return found.epoch, err
	}
	copied, found, err := s.value(ctx, s.names.epochs()[slotRange(name)], "get", "")
	if known := s.view.Load().epoch; found && known != "" {
		return known, err
	}
	return string(copied), err
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
	return s.check(ctx, create)
}
