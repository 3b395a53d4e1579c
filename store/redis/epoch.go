package redis

import (
	"context"
	"math"

	"github.com/redis/go-redis/v9"
)

// The epoch marks a store that is in use, so that a store that lost everything is
// not taken for a new one. On a cluster every range of slots has a copy of it,
// because a single node can be emptied.

// checkEpochs reads the copies on a cluster. It makes missing copies in a new
// store, and in mode mayCreate also in an emptied one.
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

// missingEpochs returns the names of the missing copies, and notes their ranges in
// the view. For a node that is out of reach it keeps the last known state. Without
// a cluster there are no copies, and the whole store is one range.
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

// epochAt returns the epoch of the name's part, or "" if there is none. On a
// cluster the copies are not replaced when another part is emptied, so there only
// their presence matters.
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
