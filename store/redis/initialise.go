package redis

import (
	"context"
	"errors"
)

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
	if err := s.check(ctx, onlyObserve); err != nil {
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
	return s.check(ctx, mayCreate)
}
