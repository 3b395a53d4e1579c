package keys

import (
	"context"
	"errors"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// Lookup returns the key of the id, from memory if possible. A key from memory
// may be older than the last change; Settle notices that by the revision.
//
// Errors are [store.ErrNotFound], [ErrLookupBudget], and [ErrForged], [ErrDamaged]
// or [ErrMasterKey] when the record cannot be used. Any other error means that the
// backend could not answer. Only [store.ErrNotFound] means that the key does not
// exist.
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

// flightTimeout is the longest time of a read that several requests wait for.
const flightTimeout = 5 * time.Second

// shared runs read once for all callers that need the same name at the same
// time, and returns its result to each of them. The read continues if a caller
// leaves. If a shared read found nothing, the value may have been written since
// it began, so the caller reads again.
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

// Fresh reads the key of the id from the backend and keeps it for
// [Service.Lookup]. If the key is missing or cannot be used, Fresh forgets it.
// The errors are those of Lookup, without [ErrLookupBudget].
func (k *Service) Fresh(ctx context.Context, id string) (*auth.Key, error) {
	if !validID(id) {
		return nil, store.ErrNotFound
	}
	seen := k.opt.Seen.of(id)
	r, err := k.get(ctx, id)
	if err == nil {
		r, err = k.authentic(ctx, r)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, ErrForged) {
		return nil, err // the backend could not answer
	}
	var key *auth.Key
	if err == nil {
		key, err = k.open(r)
	}
	if err != nil {
		k.cache.drop(id)
		if errors.Is(err, store.ErrNotFound) {
			k.opt.Seen.gone(id, seen)
		}
		return nil, err
	}
	k.cache.put(key)
	return key, nil
}
