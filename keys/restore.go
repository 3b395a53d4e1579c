package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/card-gateway/card-gateway/store"
)

// A Restoring names a record of a backup: the store that holds the backup, and the
// digest of the record as [Service.Restorable] has shown it.
type Restoring struct {
	From   store.Backend
	Digest string
}

var (
	errOtherStore = invalid("", "it is the record of another store, which may know of requests that this one does not: use card-keys copy")
	errNotLost    = fmt.Errorf("%w, and its record is right: to go back to an older one, delete the key first", store.ErrExists)
)

// Restorable returns what Restore would put back, and changes nothing. Its seal has
// the digest to approve, and a problem if this gateway has seen a newer record of the
// key. Errors as [Service.Restore].
func (k *Service) Restorable(ctx context.Context, id string, from store.Backend) (View, error) {
	r, _, err := k.backup(ctx, id, from)
	if err != nil {
		return View{}, err
	}
	if _, err := k.lost(ctx, id); err != nil {
		return View{}, err
	}
	v := viewOf(r, k.opt.Clock())
	v.Seal.Digest = digestOf(r)
	if len(r.Seal) > 0 && documentVersion(r.Seal) < k.opt.Seen.of(id) {
		v.Seal.Field, v.Seal.Problem = fieldVersion, errOlder.Error()
	}
	return v, nil
}

// Restore puts the record of a key back from a backup of this store. It replaces only
// a record that is missing, cannot be read or was forged. The backend raises the
// replay floor of the key in the same step, unless it still knows all its nonces. The failure count is
// 0. Changes that were made after the backup, such as a lock, are lost: so whoever calls
// Restore approves what [Service.Restorable] has shown. Errors: [ErrNotAsApproved],
// [InvalidError] if From is not a backup of this store, [store.ErrExists] if the record
// is right, [store.ErrNotFound] if the backup has none, [ErrForged] if that one is not as
// a gateway has written it, and those of Copy.
func (k *Service) Restore(ctx context.Context, id string, what Restoring, by By) (Changed, error) {
	refused := func(err error) (Changed, error) {
		return Changed{}, k.refuse(attempt{action: "restore", id: id, by: by, err: err})
	}
	r, ids, err := k.backup(ctx, id, what.From)
	if err != nil {
		return refused(err)
	}
	if digestOf(r) != what.Digest {
		return refused(ErrNotAsApproved)
	}
	revision, err := k.lost(ctx, id)
	if err != nil {
		return refused(err)
	}
	if err := by.wants(revision); err != nil {
		return refused(err)
	}
	put := store.PutOptions{Expect: revision, ClearFailures: true, Restore: true}
	changed, err := k.bring(ctx, ids, bringing{action: "restore", record: r.Clone(), put: put}, by)
	if err == nil {
		err = k.publishIDs(ctx, ids, id)
	}
	return changed, err
}

// backup returns the record of a key in a backup of this store, and the id key of this
// store.
func (k *Service) backup(ctx context.Context, id string, from store.Backend) (*store.Record, *IDKey, error) {
	if !validID(id) {
		return nil, nil, store.ErrNotFound
	}
	ids, err := k.idKey(ctx)
	if err != nil {
		return nil, nil, err
	}
	r, err := from.Get(ctx, id)
	var damaged *store.DamagedError
	switch {
	case errors.As(err, &damaged):
		err = damagedRecord(damaged)
	case err == nil:
		err = k.verify(r)
	}
	if err == nil {
		err = k.ofThisStore(ids, r)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("in the backup: %w", err)
	}
	return r, ids, nil
}

// ofThisStore returns an error unless the record was written by a gateway of this
// store: its fingerprints were made with the id key of this one.
func (k *Service) ofThisStore(ids *IDKey, r *store.Record) error {
	r = r.Clone()
	k.dropShut(r)
	for i := range r.Secrets {
		s := &r.Secrets[i]
		text, _, err := k.openSealed(r.ID, s)
		if err != nil {
			return err
		}
		if !bytes.Equal(s.Fingerprint, ids.Fingerprint(string(text))) {
			return errOtherStore
		}
	}
	return nil
}

// lost returns the revision of the key's record if it cannot be read or was forged,
// empty if it has none or is missing. A record that is right is store.ErrExists.
func (k *Service) lost(ctx context.Context, id string) (revision string, err error) {
	r, err := k.backend.Get(ctx, id)
	var damaged *store.DamagedError
	switch {
	case errors.As(err, &damaged):
		return damaged.Revision, nil
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	}
	revision = r.Revision
	_, err = k.authentic(ctx, r)
	switch {
	case err == nil:
		return "", errNotLost
	case errors.Is(err, ErrForged) && !errors.Is(err, ErrMasterKey): // under another master key it may be right
		return revision, nil
	default:
		return "", err
	}
}
