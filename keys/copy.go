package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/card-gateway/card-gateway/store"
)

// A Copy is the result of [Service.Copy].
type Copy struct {
	Copied  []string      `json:"copied"`  // ids of the keys that were copied
	Skipped []SkippedCopy `json:"skipped"` // keys that were not copied
}

// A SkippedCopy is a key that was not copied, and why.
type SkippedCopy struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
	// Exists is whether it was not copied because a key of its id is here already.
	Exists bool `json:"exists,omitempty"`
}

// Copy copies all keys of another store into this one: records, secrets
// and locks. The secrets must be sealed under one of this ring's master keys. A
// key is skipped, and named in the result, when its id exists here already,
// when one of its live secrets is in use here under another id, or when its record
// is damaged or forged. Copy can be called again after an error.
//
// A record that is sealed there is sealed here. One without a seal has none here.
//
// Nonces are not copied. So that no request is accepted in both stores, this
// one refuses by rule 7 the requests of a copied key that were stamped before
// the copy, or up to Options.ReplayFloorAhead after it. Failure counts start at
// 0. No gateway may use the other store during the copy.
func (k *Service) Copy(ctx context.Context, from store.Backend, by By) (Copy, error) {
	done := Copy{Copied: []string{}, Skipped: []SkippedCopy{}}
	ids, err := k.idKey(ctx)
	if err != nil {
		return done, err
	}
	if err := k.bringIDKeys(ctx, ids, from); err != nil {
		return done, err
	}
	err = each(ctx, from, func(d *store.DamagedError) {
		done.Skipped = append(done.Skipped, SkippedCopy{ID: d.ID, Reason: damagedRecord(d).Error()})
	}, func(r *store.Record) error {
		err := k.copyOne(ctx, ids, r, by)
		switch {
		case errors.Is(err, store.ErrExists), errors.Is(err, ErrSecretInUse), errors.Is(err, ErrDamaged), errors.Is(err, ErrForged):
			done.Skipped = append(done.Skipped, SkippedCopy{ID: r.ID, Reason: err.Error(), Exists: errors.Is(err, store.ErrExists)})
			return nil
		case err != nil:
			return fmt.Errorf("copying key %s: %w", r.ID, err)
		}
		done.Copied = append(done.Copied, r.ID)
		return nil
	})
	return done, errors.Join(err, k.publishIDs(ctx, ids, done.Copied...))
}

func (k *Service) copyOne(ctx context.Context, ids *IDKey, source *store.Record, by By) error {
	if !validID(source.ID) {
		return fmt.Errorf("the id is not valid: %w", ErrDamaged)
	}
	if err := k.verify(source); err != nil {
		return err
	}
	r := source.Clone()
	r.StampedAfter = k.opt.Clock().UTC().Add(k.opt.ReplayFloorAhead)
	r.Imported = source.Imported || !ids.Check(source.ID) && !k.known.has(source.ID)
	_, err := k.bring(ctx, ids, bringing{action: "copy", record: r}, by)
	return err
}

// A bringing is a verified record of another store that is to be written into this one.
type bringing struct {
	action string
	record *store.Record // is changed
	put    store.PutOptions
}

// bring seals the secrets of the record for this store, reserves them and writes it.
// The record is sealed if it was.
func (k *Service) bring(ctx context.Context, ids *IDKey, b bringing, by By) (changed Changed, err error) {
	r := b.record
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
		k.report(attempt{action: b.action, by: by, after: r, replicated: changed.Replicated, err: err})
	}()
	if err = k.reserveAll(ctx, r); err != nil {
		return Changed{}, err
	}
	if len(r.Seal) > 0 {
		k.sealRecord(r)
	}
	d, err := k.backend.Put(ctx, r, b.put)
	k.cache.drop(r.ID)
	for _, s := range r.Secrets {
		if err == nil {
			err = k.confirmReservation(ctx, s.Fingerprint, r)
		}
	}
	if err != nil {
		k.releaseAll(ctx, r.Secrets, r.ID)
		return Changed{}, err
	}
	k.wrote(r)
	return Changed{View: viewOf(r, now), Replicated: d.Replicated}, nil
}

// sealAnew converts the secrets of a record of another store to the form of this
// one: sealed under the first master key, with fingerprints of this store's id
// key.
func (k *Service) sealAnew(ids *IDKey, r *store.Record) error {
	k.dropShut(r)
	for i := range r.Secrets {
		s := &r.Secrets[i]
		text, label, err := k.openSealed(r.ID, s)
		if err != nil {
			return err
		}
		s.Sealed, s.Fingerprint = k.ring.Seal(text, label), ids.Fingerprint(string(text))
	}
	return nil
}

// reserveAll reserves the secrets of a record. It leaves out one that has ended
// and is in use under another id.
func (k *Service) reserveAll(ctx context.Context, r *store.Record) error {
	var reserved []store.SealedSecret
	for _, s := range r.Secrets {
		err := k.reserve(ctx, s.Fingerprint, r.ID)
		if errors.Is(err, ErrSecretInUse) && !s.Live(k.opt.Clock()) {
			continue
		}
		if err != nil {
			k.releaseAll(ctx, reserved, r.ID)
			return err
		}
		reserved = append(reserved, s)
	}
	r.Secrets = reserved
	return nil
}

func (k *Service) releaseAll(ctx context.Context, secrets []store.SealedSecret, id string) {
	for _, s := range secrets {
		k.release(ctx, s.Fingerprint, id)
	}
}
