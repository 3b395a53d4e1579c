package keys

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// By is the actor of a change, and its condition.
type By struct {
	// Actor is the name for the audit log, as it was authenticated.
	Actor string
	// Claimed is who the caller claims to be, for the audit log; empty: nothing.
	Claimed string
	// Revision, when set, is the revision that the key must have; otherwise the
	// change fails with ErrRevision.
	Revision string
}

// Changed is the result of a change: the key as it is now; the secret if one was
// made, shown only this once; and whether a replica has acknowledged the change
// (nil if there are none).
type Changed struct {
	View
	Secret     string `json:"secret,omitempty"`
	Replicated *bool  `json:"replicated,omitempty"`
}

// NewRevision returns a fresh random revision of 16 hex digits.
func NewRevision() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// stamp returns the time as it is stored, to the millisecond.
func (k *Service) stamp() time.Time { return k.opt.Clock().UTC().Truncate(time.Millisecond) }

// Update applies a JSON merge patch (RFC 7396) to the [store.Fields] of a key.
// Errors: [InvalidError], [ErrMalformed], [store.ErrNotFound], [ErrRevision],
// [store.ErrConflict] when others keep changing the key.
func (k *Service) Update(ctx context.Context, id string, patch []byte, by By) (Changed, error) {
	return k.change(ctx, id, by, edit{action: "update", apply: func(r *store.Record) error {
		after, err := patched(&r.Fields, patch)
		if err != nil {
			return err
		}
		if err := k.checkFields(&after); err != nil {
			return err
		}
		if err := k.checkDebugUntil(after.DebugUntil, r.DebugUntil); err != nil {
			return err
		}
		r.Fields = after
		return nil
	}})
}

// Disable makes every further request with the key fail. Errors as Update.
func (k *Service) Disable(ctx context.Context, id string, by By) (Changed, error) {
	return k.change(ctx, id, by, edit{action: "disable", apply: func(r *store.Record) error { r.Disabled = true; return nil }})
}

// Enable ends Disable, and does not clear a lock. Errors as Update.
func (k *Service) Enable(ctx context.Context, id string, by By) (Changed, error) {
	return k.change(ctx, id, by, edit{action: "enable", apply: func(r *store.Record) error { r.Disabled = false; return nil }})
}

// Unlock clears the lock and the count of failures. It does not enable a key that
// an operator disabled. Errors as Update.
func (k *Service) Unlock(ctx context.Context, id string, by By) (Changed, error) {
	return k.change(ctx, id, by, edit{action: "unlock", clearFailures: true, apply: func(r *store.Record) error { r.Lock = nil; return nil }})
}

// An edit is what one call does to a record.
type edit struct {
	action        string
	clearFailures bool
	approved      string                    // the digest of the record that is to be sealed; empty: seal one that is sealed
	apply         func(*store.Record) error // may be called several times, on fresh copies
}

// changeAttempts is how often a change is tried while others change the same key.
const changeAttempts = 10

// change applies an edit to the stored record, and starts again if the record was
// changed meanwhile.
func (k *Service) change(ctx context.Context, id string, by By, e edit) (changed Changed, err error) {
	var old, r *store.Record
	defer func() {
		before := old
		if e.approved != "" {
			before = nil // the audit log has all that was approved
		}
		k.report(attempt{action: e.action, id: id, by: by, before: before, after: r, replicated: changed.Replicated, err: err})
	}()
	if !validID(id) {
		return Changed{}, store.ErrNotFound
	}
	for range changeAttempts {
		if old, err = k.readFor(ctx, id, &e); err != nil {
			return Changed{}, err
		}
		if err := by.wants(old.Revision); err != nil {
			return Changed{}, err
		}
		r = old.Clone()
		dropOutdated(r, k.opt.Clock())
		if err := e.apply(r); err != nil {
			return Changed{}, err
		}
		r.Revision, r.UpdatedAt = NewRevision(), k.stamp()
		if e.approved != "" || len(old.Seal) > 0 {
			k.sealRecord(r)
		}
		var d store.Durability
		d, err = k.backend.Put(ctx, r, store.PutOptions{Expect: old.Revision, ClearFailures: e.clearFailures})
		k.cache.drop(id)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err != nil {
			return Changed{}, fmt.Errorf("storing key %s, which may or may not have been changed: %w", id, err)
		}
		if e.clearFailures {
			r.Failures = 0
		}
		k.releaseDropped(ctx, old, r)
		k.wrote(r)
		return Changed{View: viewOf(r, k.opt.Clock()), Replicated: d.Replicated}, nil
	}
	return Changed{}, err
}

// readFor returns the record that is to be edited. A change of a forged record, or
// of one that must have a seal and has none, would approve it: [ErrForged].
func (k *Service) readFor(ctx context.Context, id string, e *edit) (*store.Record, error) {
	r, err := k.get(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case e.approved != "" && e.approved != digestOf(r):
		return nil, ErrNotAsApproved
	case e.approved != "":
		return r, nil
	default:
		return k.authentic(ctx, r)
	}
}

// wants returns nil if a record of the revision is to be changed.
func (by *By) wants(revision string) error {
	if by.Revision != "" && by.Revision != revision {
		return ErrRevision
	}
	return nil
}

// Delete deletes a key, also a forged one, or one whose record cannot be read. Errors: [store.ErrNotFound], [ErrRevision], [store.ErrConflict].
func (k *Service) Delete(ctx context.Context, id string, by By) (d store.Durability, err error) {
	var old *store.Record
	defer func() {
		k.report(attempt{action: "delete", id: id, by: by, before: old, replicated: d.Replicated, err: err})
	}()
	if !validID(id) {
		return store.Durability{}, store.ErrNotFound
	}
	for range changeAttempts {
		var revision string
		if old, revision, err = k.readToDelete(ctx, id); err != nil {
			return store.Durability{}, err
		}
		if err = by.wants(revision); err != nil {
			return store.Durability{}, err
		}
		seen := k.opt.Seen.of(id)
		d, err = k.backend.Delete(ctx, id, revision)
		k.cache.drop(id)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			if old != nil {
				k.releaseDropped(ctx, old, &store.Record{ID: id})
			}
			k.opt.Seen.gone(id, seen)
		}
		return d, err
	}
	return store.Durability{}, err
}

// readToDelete returns the record of a key, nil if it cannot be read, and its
// revision, empty if that is not known.
func (k *Service) readToDelete(ctx context.Context, id string) (*store.Record, string, error) {
	r, err := k.backend.Get(ctx, id)
	var damaged *store.DamagedError
	if errors.As(err, &damaged) {
		return nil, damaged.Revision, nil
	}
	if err != nil {
		return nil, "", err
	}
	return r, r.Revision, nil
}
