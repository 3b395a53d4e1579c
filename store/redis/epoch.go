package redis

import (
	"context"
	"math"

	"github.com/redis/go-redis/v9"
)

// The epoch marks a store that is in use, so that one which lost everything is
// not taken for one that has no keys. On a cluster every range of slots has a
// copy of it, because a single node can be emptied.

// checkEpochs reads the copies on a cluster. Missing copies are
// made with a new store, and in mode mayCreate also with an emptied one.
func (s *servers) checkEpochs(ctx context.Context, m mode, next *view) error {
	if s.cluster == nil {
		return nil
	}
	created := next.epoch != s.view.Load().epoch && m == onlyObserve && s.view.Load().epoch == ""
	missing, err := s.missingEpochs(ctx, next)
	if err != nil || len(missing) == 0 {
		return err
	}
	if m != mayCreate && !(created && len(missing) == slotRanges) {
		return errEmptied
	}
	if m == mayCreate {
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
