package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// A Copy is the result of [Service.Copy].
type Copy struct {
	Copied  []string     `json:"copied"`  // ids of the keys that were copied
	Skipped []KeyProblem `json:"skipped"` // keys that were not copied
}

// A KeyProblem is a key that was not copied, and why.
type KeyProblem struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	// Exists is whether it was not copied because a key of its id is here already.
	Exists bool `json:"exists,omitempty"`
}

// Copy copies all keys of another store into this one: records, secrets
// and locks. The secrets must be sealed under one of this ring's master keys. A
// key is skipped, and named in the result, when its id exists here already,
// when one of its live secrets is in use here under another id, when its record
// is damaged or forged, or when this store did not answer in time. Copy ends with an
// error when that happens to several keys in a row. It can be called again for what is
// missing.
//
// A record that is sealed there is sealed here. One without a seal has none here, and is
// skipped if it must have one in one of the two stores.
//
// Nonces are not copied. So that no request is accepted in both stores, this
// one refuses by rule 7 the requests of a copied key that were stamped before
// the copy, or up to Options.ReplayFloorAhead after it. Failure counts start at
// 0. No gateway may use the other store during the copy.
func (k *Service) Copy(ctx context.Context, from store.Backend, by By) (Copy, error) {
	done := Copy{Copied: []string{}, Skipped: []KeyProblem{}}
	must, err := k.mustBeSealed(ctx)
	if err != nil {
		return done, err
	}
	ids, usable := k.ids.Load(), k.usable(ctx, from)
	silent := 0 // keys in a row for which this store did not answer
	err = eachRecord(ctx, from, func(d *store.DamagedError) {
		done.Skipped = append(done.Skipped, KeyProblem{ID: d.ID, Reason: damagedRecord(d).Error()})
	}, func(r *store.Record) error {
		err := usable(r)
		if err == nil && must && len(r.Seal) == 0 {
			err = errCopyUnsealed
		}
		if err == nil {
			err = k.copyOne(ctx, ids, r, by)
		}
		if !errors.Is(err, store.ErrUnavailable) {
			silent = 0
		} else if silent++; silent < mostSilent {
			done.Skipped = append(done.Skipped, KeyProblem{ID: r.ID, Reason: err.Error() + "; it may be copied or not: copy again"})
			return nil
		}
		switch {
		case errors.Is(err, store.ErrExists), errors.Is(err, ErrSecretInUse), errors.Is(err, keyring.ErrDamaged), errors.Is(err, ErrForged), errors.Is(err, errCopyUnsealed):
			done.Skipped = append(done.Skipped, KeyProblem{ID: r.ID, Reason: err.Error(), Exists: errors.Is(err, store.ErrExists)})
			return nil
		case err != nil:
			return fmt.Errorf("copying key %s: %w", r.ID, err)
		}
		done.Copied = append(done.Copied, r.ID)
		return nil
	})
	return done, errors.Join(err, k.publishIDs(ctx, ids, done.Copied...))
}

var errCopyUnsealed = errors.New("its record has no seal, without which it is not accepted: let a gateway that uses the other store check and seal it (`card-keys seal`), then copy again")

// mostSilent is how many calls in a row may fail before a copy gives up: the store is
// down then, and each call waits for its time-out.
const mostSilent = 5

func (k *Service) copyOne(ctx context.Context, ids *storeKey, source *store.Record, by By) error {
	if !keyid.Valid(source.ID) {
		return fmt.Errorf("the id is not valid: %w", keyring.ErrDamaged)
	}
	r := source.Clone()
	r.StampedAfter = k.opt.Clock().UTC().Add(k.opt.ReplayFloorAhead)
	_, err := k.addForeign(ctx, ids, addition{action: "copy", record: r}, by)
	return err
}

// addForeign adds a verified record of another store, with its secrets sealed for this
// one. The record is sealed if it was, or if it must be: then an operator has approved it.
func (k *Service) addForeign(ctx context.Context, ids *storeKey, a addition, by By) (changed Changed, err error) {
	r := a.record
	now := k.opt.Clock().UTC()
	r.Revision, r.UpdatedAt = NewRevision(), now
	dropOutdated(r, now)
	if err := k.sealAnew(ids, r); err != nil {
		return Changed{}, err
	}
	if _, err := k.open(r); err != nil {
		return Changed{}, err
	}
	defer func() {
		k.report(attempt{action: a.action, by: by, after: r, replicated: changed.Replicated, err: err})
	}()
	return k.writeNew(ctx, r, a.put, func(ctx context.Context) (bool, error) {
		must, err := k.mustBeSealed(ctx)
		return must || len(r.Seal) > 0, err
	})
}

// sealAnew converts the secrets of a record of another store to the form of this
// one: sealed under the first master key, with fingerprints of this store's id
// key.
func (k *Service) sealAnew(ids *storeKey, r *store.Record) error {
	return k.openAll(r, func(s *store.SealedSecret, text []byte, label string) error {
		s.Sealed, s.Fingerprint = k.ring.Seal(text, label), ids.Fingerprint(string(text))
		return nil
	})
}

// A Restoring names a record of a backup: the store that holds the backup, and the
// digest of the record as [Service.Restorable] has shown it.
type Restoring struct {
	From   store.Backend
	Digest string
}

var (
	errOtherStore = fields.Invalid("", "it is the record of another store, which may know of requests that this one does not: use card-keys copy")
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
	if _, err := k.lostRevision(ctx, id); err != nil {
		return View{}, err
	}
	v := viewOf(r, k.opt.Clock())
	v.Seal.Digest = keyring.Digest(r)
	if len(r.Seal) > 0 && keyring.DocumentVersion(r.Seal) < k.opt.Versions.highest(id) {
		v.Seal.Field, v.Seal.Problem = fieldVersion, errOlder.Error()
	}
	return v, nil
}

// Restore puts the record of a key back from a backup of this store. It replaces only
// a record that is missing, cannot be read or was forged. The backend raises the
// replay floor of the key in the same step, unless it still knows all its nonces. The failure count is
// 0. Changes that were made after the backup, such as a lock, are lost: so whoever calls
// Restore approves what [Service.Restorable] has shown. Errors: [ErrNotAsApproved],
// [fields.InvalidError] if From is not a backup of this store, [store.ErrExists] if the record
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
	if keyring.Digest(r) != what.Digest {
		return refused(ErrNotAsApproved)
	}
	revision, err := k.lostRevision(ctx, id)
	if err != nil {
		return refused(err)
	}
	if err := by.checkRevision(revision); err != nil {
		return refused(err)
	}
	put := store.PutOptions{Expect: revision, ClearFailures: true, Restore: true}
	changed, err := k.addForeign(ctx, ids, addition{action: "restore", record: r.Clone(), put: put}, by)
	if err == nil {
		err = k.publishIDs(ctx, ids, id)
	}
	return changed, err
}

// backup returns the record of a key in a backup of this store, and the id key of this
// store.
func (k *Service) backup(ctx context.Context, id string, from store.Backend) (*store.Record, *storeKey, error) {
	if !keyid.Valid(id) {
		return nil, nil, store.ErrNotFound
	}
	ids, err := k.idKey(ctx)
	if err != nil {
		return nil, nil, err
	}
	r, err := from.Get(ctx, id)
	if damaged, ok := errors.AsType[*store.DamagedError](err); ok {
		err = damagedRecord(damaged)
	}
	if err == nil {
		err = k.verify(r)
	}
	if err == nil {
		err = k.checkSameStore(ids, r)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("in the backup: %w", err)
	}
	return r, ids, nil
}

// checkSameStore returns an error unless the record was written by a gateway of this
// store: its fingerprints were made with the id key of this one.
func (k *Service) checkSameStore(ids *storeKey, r *store.Record) error {
	return k.openAll(r.Clone(), func(s *store.SealedSecret, text []byte, _ string) error {
		if !bytes.Equal(s.Fingerprint, ids.Fingerprint(string(text))) {
			return errOtherStore
		}
		return nil
	})
}

// lostRevision returns the revision of the key's record if it cannot be read or was forged,
// empty if it has none or is missing. A record that is right is store.ErrExists.
func (k *Service) lostRevision(ctx context.Context, id string) (string, error) {
	r, revision, err := k.readRevision(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if r == nil {
		return revision, err
	}
	_, err = k.authentic(ctx, r)
	switch {
	case err == nil:
		return "", errNotLost
	case errors.Is(err, ErrForged) && !errors.Is(err, keyring.ErrMasterKey): // under another master key it may be right
		return revision, nil
	default:
		return "", err
	}
}

// A Drill is the result of [Service.Drill].
type Drill struct {
	Opened int          `json:"opened"` // keys all of whose live secrets were opened
	Failed []KeyProblem `json:"failed"` // the others, and why
	// Unsealed is how many of the opened keys have a record without a seal.
	Unsealed int `json:"unsealed"`
}

// Drill checks the seals and opens the live secrets of all keys with the master
// keys, such as of a backup, and changes nothing. Its error is the backend's.
func (k *Service) Drill(ctx context.Context) (Drill, error) {
	d, usable := Drill{Failed: []KeyProblem{}}, k.usable(ctx, k.backend)
	err := eachRecord(ctx, k.backend, func(damaged *store.DamagedError) {
		d.Failed = append(d.Failed, KeyProblem{ID: damaged.ID, Reason: damagedRecord(damaged).Error()})
	}, func(r *store.Record) error {
		if failed := usable(r); failed != nil {
			d.Failed = append(d.Failed, KeyProblem{ID: r.ID, Reason: failed.Error()})
		} else {
			d.Opened++
			if len(r.Seal) == 0 {
				d.Unsealed++
			}
		}
		return nil
	})
	return d, err
}

// usable returns a function that reports why a record of a backend cannot be used. It
// writes nothing. Under another master key no seal verifies, which says nothing of the
// record. Only an id key that says so allows records without a seal, see loadIDKey.
func (k *Service) usable(ctx context.Context, from store.Backend) func(*store.Record) error {
	ids, _, err := k.readIDKey(ctx, from)
	must := err != nil || ids.sealed
	return func(r *store.Record) error {
		err := k.verify(r)
		if err == nil {
			_, err = k.open(r)
		}
		switch {
		case errors.Is(err, keyring.ErrMasterKey):
			return keyring.ErrMasterKey
		case err == nil && must && len(r.Seal) == 0:
			return &ForgedError{r.ID, keyring.FieldSeal, errNotSealed}
		default:
			return err
		}
	}
}
