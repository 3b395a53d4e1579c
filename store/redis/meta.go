package redis

import (
	"context"
	"fmt"

	"github.com/card-gateway/card-gateway/store"
)

// Meta returns a small named value.
func (s *Store) Meta(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.SettleTimeout)
	defer cancel()
	value, found, err := s.value(ctx, s.names.meta(name), "get", "")
	if err != nil {
		return nil, err
	}
	if found {
		return value, nil
	}
	if there, err := s.servers.initialised(ctx, name); err != nil {
		return nil, err
	} else if !there {
		return nil, errEmptied
	}
	return nil, fmt.Errorf("value %q: %w", name, store.ErrNotFound)
}

// PutMeta writes a small named value if there is none.
func (s *Store) PutMeta(ctx context.Context, name string, value []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.ChangeTimeout)
	defer cancel()
	if err := s.initialise(ctx, name); err != nil {
		return nil, err
	}
	stored, found, err := s.value(ctx, s.names.meta(name), "put", string(value))
	if err == nil && !found {
		err = fmt.Errorf("%w: redis did not keep the value %q", store.ErrUnavailable, name)
	}
	return stored, err
}

// DeleteMeta removes a named value if it still is the given one.
func (s *Store) DeleteMeta(ctx context.Context, name string, value []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.ChangeTimeout)
	defer cancel()
	_, _, err := s.value(ctx, s.names.meta(name), "delete", string(value))
	return err
}
