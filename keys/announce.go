package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/card-gateway/card-gateway/store"
)

// publishIDs makes new ids known, here and on the other gateways. When it
// returns nil, no gateway refuses one of them as invented.
func (k *Service) publishIDs(ctx context.Context, own *IDKey, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	refusable := slices.ContainsFunc(ids, func(id string) bool {
		_, _, ours := splitID(id)
		return ours && !own.Check(id) && !k.known.has(id)
	})
	k.known.learn(own, ids...)
	err := k.announceIDs(ctx)
	if !refusable || k.local {
		return nil // the other gateways look the ids up until they know them, at the latest after their next census
	}
	if err == nil {
		err = k.awaitOthers(ctx)
	}
	if err != nil {
		return fmt.Errorf("the keys are stored, but other gateways may refuse them for half a minute: %w", err)
	}
	return nil
}

// awaitOthers returns nil when all other gateways know the announced ids.
func (k *Service) awaitOthers(ctx context.Context) error {
	select {
	case <-k.opt.After(idsSettled):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// storeCopiedIDKey stores an id key under the first number that is free.
func (k *Service) storeCopiedIDKey(ctx context.Context, ids *IDKey) error {
	for number := range maxCopiedIDKeys {
		name := metaCopiedIDKey + strconv.Itoa(number+1)
		sealed := k.ring.Seal(ids[:], name)
		stored, err := k.backend.PutMeta(ctx, name, sealed)
		if err != nil || bytes.Equal(stored, sealed) {
			return err
		}
	}
	return nil
}

// announceIDs makes the other gateways read the ids again. Call it after new ids
// are written. When it returns nil, the stored value was written after these ids,
// even if two gateways announce at the same time: each deletes only the value
// that it has read, and writes only if there is none.
func (k *Service) announceIDs(ctx context.Context) error {
	if k.local {
		return nil
	}
	before, err := k.backend.Meta(ctx, metaIDChange)
	switch {
	case err == nil:
		err = k.backend.DeleteMeta(ctx, metaIDChange, before)
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}
	if err == nil {
		_, err = k.backend.PutMeta(ctx, metaIDChange, []byte(NewRevision()))
	}
	return err
}
