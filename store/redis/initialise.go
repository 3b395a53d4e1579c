package redis

import (
	"context"
	"errors"
)

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
