package redis

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// The epoch marks a store that is in use, so that a store that lost everything is
// not taken for a new one. On a cluster every range of slots has a copy of it,
// because a single node can be emptied.
//
// The copies of a new store cannot be made in one step. So the epoch is written
// together with the note that its copies are being made. While the note is there,
// no key is written and nothing is settled, and every check of every gateway goes on
// making copies. So an emptied node has lost nothing then.

// checkEpochs reads the copies on a cluster. It makes missing copies in a new
// store, and in mode mayCreate also in an emptied one.
func (s *servers) checkEpochs(ctx context.Context, m mode, next *view) error {
	if s.cluster == nil {
		return nil
	}
	if next.making {
		if inUse, err := s.makeEpochs(ctx, next); err != nil || !inUse {
			return err
		}
	}
	firstSeen := m == onlyObserve && s.view.Load().epoch == ""
	missing, err := s.missingEpochs(ctx, next)
	if err != nil || len(missing) == 0 {
		return err
	}
	// Versions that did not note it have an epoch without any copy in a new store.
	if m != mayCreate && !(firstSeen && len(missing) == slotRanges) {
		return errEmptied
	}
	if m == mayCreate {
		s.lost.Store(s.lost.Load() || s.view.Load().epoch != "")
		if _, err := s.runAdopt(ctx, "", adoption{raise: true}, next); err != nil {
			return err
		}
	}
	return s.putEpochs(ctx, missing, next.epoch)
}

// makeEpochs makes the missing copies of a new store, and removes the note when all
// are there. It makes none before all nodes have answered, because one of them may
// show that the store was in use: by a copy of another epoch, or by the list of its
// keys. Then it only removes the note. Unless the epoch is of this check, the floor
// rises with that, because a gateway of a version that does not know the note may
// have accepted requests.
func (s *servers) makeEpochs(ctx context.Context, next *view) (inUse bool, err error) {
	pipe := s.cluster.Pipeline()
	keys := pipe.Exists(ctx, s.names.index())
	copies := s.readEpochs(ctx, pipe)
	inUse, err = keys.Val() > 0, keys.Err()
	var missing []string
	for _, c := range copies {
		switch {
		case errors.Is(c.Err(), redis.Nil):
			missing = append(missing, c.name)
		case c.Err() != nil:
			err = c.Err()
		default:
			inUse = inUse || c.Val() != next.epoch
		}
	}
	if !inUse {
		if err == nil {
			err = s.putEpochs(ctx, missing, next.epoch)
		}
		if unfit := refusal("", err); unfit != nil {
			return false, unfit
		} else if err != nil {
			return false, fmt.Errorf("%w: %w", errBeingMade, err)
		}
	}
	if _, err = s.runAdopt(ctx, "", adoption{made: next.epoch, raise: !next.created}, next); err == nil && next.making {
		err = errBeingMade // anew
	}
	return inUse, err
}

func (s *servers) putEpochs(ctx context.Context, missing []string, epoch string) error {
	for _, name := range missing {
		stored, _, err := s.value(ctx, name, "put", epoch)
		if err != nil {
			return err
		}
		if string(stored) != epoch {
			return fmt.Errorf("%w: another gateway makes the store new", store.ErrUnavailable)
		}
	}
	return nil
}

// An epochCopy is the answer about one copy: [redis.Nil] if it is missing.
type epochCopy struct {
	name string
	*redis.StringCmd
}

// readEpochs executes the pipeline and reads the copies with it, in the order of
// their ranges.
func (s *servers) readEpochs(ctx context.Context, pipe redis.Pipeliner) []epochCopy {
	copies := make([]epochCopy, 0, slotRanges)
	for _, name := range s.names.epochs() {
		copies = append(copies, epochCopy{name, pipe.Get(ctx, name)})
	}
	_, _ = pipe.Exec(ctx) // each command holds its error
	return copies
}

// missingEpochs returns the names of the missing copies, and notes their ranges in
// the view. For a node that is out of reach it keeps the last known state. Without
// a cluster there are no copies, and the whole store is one range.
func (s *servers) missingEpochs(ctx context.Context, next *view) ([]string, error) {
	if s.cluster == nil {
		next.emptied = math.MaxUint64
		return nil, nil
	}
	var missing []string
	for i, c := range s.readEpochs(ctx, s.cluster.Pipeline()) {
		err := c.Err()
		if unfit := refusal("", err); unfit != nil {
			return nil, unfit
		}
		switch {
		case errors.Is(err, redis.Nil):
			missing = append(missing, c.name)
			next.emptied |= 1 << i
		case err == nil:
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
