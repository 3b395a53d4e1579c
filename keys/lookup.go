package keys

import (
	"context"
	"errors"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// Lookup returns the key of the id, from memory if it is cached. A cached key
// may be older than the last change; Settle notices that by the revision.
// Errors: [ErrNotFound]; [ErrLookupBudget]; [ErrDamaged] and [ErrMasterKey] when
// the record cannot be used. Any other error means that the backend could not
// answer. Only ErrNotFound means that there is no such key.
func (k *Service) Lookup(ctx context.Context, id string) (*auth.Key, error) {
	if key := k.cache.get(id); key != nil {
		return key, nil
	}
	return k.miss(ctx, id)
}

func (k *Service) miss(ctx context.Context, id string) (*auth.Key, error) {
	if !validID(id) {
		return nil, store.ErrNotFound
	}
	ids, err := k.idKey(ctx)
	if err != nil {
		return nil, err
	}
	if k.local {
		return k.Fresh(ctx, id)
	}
	if err := k.admit(ids, id); err != nil {
		return nil, err
	}
	result, err := k.shared(ctx, "key "+id, func(ctx context.Context) (any, error) { return k.Fresh(ctx, id) })
	if err != nil {
		return nil, err
	}
	return result.(*auth.Key), nil
}

// flightTimeout bounds a read that several requests wait for.
const flightTimeout = 5 * time.Second

// shared runs read once for all callers that ask for the same name at the same
// time. The read goes on when the first caller leaves. A missing value may have
// been written since a shared read began, so it is read again.
func (k *Service) shared(ctx context.Context, name string, read func(context.Context) (any, error)) (any, error) {
	done := k.flights.DoChan(name, func() (any, error) {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), flightTimeout)
		defer cancel()
		return read(detached)
	})
	select {
	case r := <-done:
		if r.Shared && errors.Is(r.Err, store.ErrNotFound) {
			return read(ctx)
		}
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Fresh returns the key of the id as the backend has it now, and
// keeps it for [Service.Lookup], or forgets it when it is gone. Errors as there.
func (k *Service) Fresh(ctx context.Context, id string) (*auth.Key, error) {
	if !validID(id) {
		return nil, store.ErrNotFound
	}
	r, err := k.backend.Get(ctx, id)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			k.cache.drop(id)
		}
		return nil, err
	}
	key, err := k.open(r)
	if err != nil {
		k.cache.drop(id)
		return nil, err
	}
	k.cache.put(key)
	return key, nil
}
