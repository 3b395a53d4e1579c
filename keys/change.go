package keys

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// CreateRequest asks for a new key.
type CreateRequest struct {
	store.Fields
	// Mode is "live" or "test". Default: live.
	Mode keyid.Mode `json:"mode,omitempty"`
}

// Create makes a key with a new secret, which it returns. Errors:
// [fields.InvalidError]. Any other error means that the store did not answer. Then a
// new key may exist; nobody has its secret.
func (k *Service) Create(ctx context.Context, req CreateRequest, by By) (Changed, error) {
	req.Mode = cmp.Or(req.Mode, keyid.Live)
	ids, err := k.idKey(ctx)
	if req.Mode != keyid.Live && req.Mode != keyid.Test {
		err = fields.Invalid("mode", `want "live" or "test"`)
	}
	if err != nil {
		return Changed{}, k.refuse(attempt{action: "create", by: by, err: err})
	}
	secret := NewSecretText()
	record := &store.Record{ID: ids.Mint(req.Mode), Fields: req.Fields}
	changed, err := k.add(ctx, addition{action: "create", record: record, secret: secret}, by)
	if err == nil {
		changed.Secret = secret
	}
	return changed, err
}

// refuse reports an attempt that failed before there was a record, and returns its
// error.
func (k *Service) refuse(a attempt) error {
	k.report(a)
	return a.err
}

// An addition is a record that this store does not have.
type addition struct {
	action string
	record *store.Record // is changed
	secret string        // the text of its first secret; of another store's record empty
	put    store.PutOptions
}

// add completes and writes a new record. Errors as [Service.Import].
func (k *Service) add(ctx context.Context, a addition, by By) (changed Changed, err error) {
	r := a.record
	defer func() {
		k.report(attempt{action: a.action, by: by, after: r, replicated: changed.Replicated, err: err})
	}()
	if err := k.checkFields(&r.Fields, time.Time{}); err != nil {
		return Changed{}, err
	}
	r.Revision = NewRevision()
	r.CreatedAt = k.stamp()
	r.UpdatedAt = r.CreatedAt
	sealed, err := k.sealSecret(ctx, r.ID, 1, a.secret)
	if err != nil {
		return Changed{}, err
	}
	r.Secrets = []store.SealedSecret{sealed}
	return k.writeNew(ctx, r, a.put, k.sealsNew)
}

// writeNew reserves the secrets of a record that this store does not have, and writes
// it, with a seal if seals returns true. The reservations come before, because they
// make an emptied store new: until then no value can be read from it.
func (k *Service) writeNew(ctx context.Context, r *store.Record, opt store.PutOptions, seals func(context.Context) (bool, error)) (Changed, error) {
	if err := k.reserveAll(ctx, r); err != nil {
		return Changed{}, err
	}
	var d store.Durability
	sealed, err := seals(ctx)
	if err == nil {
		if sealed {
			k.sealRecord(r)
		}
		d, err = k.backend.Put(ctx, r, opt)
		k.cache.drop(r.ID)
	}
	for _, s := range r.Secrets {
		if err == nil {
			err = k.confirmReservation(ctx, s.Fingerprint, r)
		}
	}
	if err != nil {
		k.releaseDropped(ctx, r, &store.Record{})
		return Changed{}, err
	}
	k.rememberVersion(r)
	return Changed{View: viewOf(r, k.opt.Clock()), Replicated: d.Replicated}, nil
}

// ImportRequest asks for a key with the id and secret of an earlier system.
type ImportRequest struct {
	store.Fields
	// ID is 1 to 128 letters, digits and `. _ ~ : @ + = -`.
	ID string `json:"id"`
	// Secret is 16 to 1024 bytes of text without control characters.
	Secret string `json:"secret"`
}

const (
	minImportedSecret = 16
	maxImportedSecret = 1024
)

// Import makes a key of a given id and secret. Errors: [fields.InvalidError],
// [store.ErrExists] when there is a key of this id, [ErrSecretInUse].
func (k *Service) Import(ctx context.Context, req ImportRequest, by By) (Changed, error) {
	if err := req.check(); err != nil {
		return Changed{}, k.refuse(attempt{action: "import", id: req.ID, by: by, err: err})
	}
	ids, err := k.idKey(ctx)
	if err != nil {
		return Changed{}, k.refuse(attempt{action: "import", id: req.ID, by: by, err: err})
	}
	record := &store.Record{ID: req.ID, Fields: req.Fields, Imported: true}
	changed, err := k.add(ctx, addition{action: "import", record: record, secret: req.Secret}, by)
	if err == nil {
		err = k.publishIDs(ctx, ids, req.ID)
	}
	return changed, err
}

func (r *ImportRequest) check() error {
	if !keyid.Valid(r.ID) {
		return fields.Invalid("id", "want 1 to %d letters, digits and . _ ~ : @ + = -", keyid.MaxLength)
	}
	if len(r.Secret) < minImportedSecret {
		return fields.Invalid("secret", "want at least %d bytes; a shorter one can be guessed", minImportedSecret)
	}
	if err := fields.CheckText("secret", r.Secret, maxImportedSecret); err != nil {
		return err
	}
	if strings.Count(r.Secret, r.Secret[:1]) == len(r.Secret) {
		return fields.Invalid("secret", "one character repeated can be guessed")
	}
	return nil
}

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
// Errors: [fields.InvalidError], [fields.ErrMalformed], [store.ErrNotFound], [ErrRevision],
// [store.ErrConflict] when others keep changing the key.
func (k *Service) Update(ctx context.Context, id string, patch []byte, by By) (Changed, error) {
	return k.change(ctx, id, by, edit{action: "update", apply: func(r *store.Record) error {
		after, err := fields.Patch(&r.Fields, patch)
		if err == nil {
			err = k.checkFields(&after, r.DebugUntil)
		}
		if err == nil {
			r.Fields = after
		}
		return err
	}})
}

// checkFields returns an error if a key may not get the fields. debugUntil is what is
// stored.
func (k *Service) checkFields(f *store.Fields, debugUntil time.Time) error {
	return fields.Check(f, fields.Bounds{Scopes: k.opt.CheckScopes, Limits: k.opt.CheckLimits, Now: k.opt.Clock(), DebugUntil: debugUntil})
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
	if !keyid.Valid(id) {
		return Changed{}, store.ErrNotFound
	}
	for range changeAttempts {
		if old, err = k.readFor(ctx, id, &e); err != nil {
			return Changed{}, err
		}
		if err := by.checkRevision(old.Revision); err != nil {
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
		k.rememberVersion(r)
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
	case e.approved != "" && e.approved != keyring.Digest(r):
		return nil, ErrNotAsApproved
	case e.approved != "":
		return r, nil
	default:
		return k.authentic(ctx, r)
	}
}

// checkRevision returns nil if a record of the revision is to be changed.
func (by *By) checkRevision(revision string) error {
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
	if !keyid.Valid(id) {
		return store.Durability{}, store.ErrNotFound
	}
	for range changeAttempts {
		var revision string
		if old, revision, err = k.readRevision(ctx, id); err != nil {
			return store.Durability{}, err
		}
		if err = by.checkRevision(revision); err != nil {
			return store.Durability{}, err
		}
		seen := k.opt.Versions.highest(id)
		d, err = k.backend.Delete(ctx, id, revision)
		k.cache.drop(id)
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		if err == nil {
			if old != nil {
				k.releaseDropped(ctx, old, &store.Record{ID: id})
			}
			k.opt.Versions.recordDeleted(id, seen)
		}
		return d, err
	}
	return store.Durability{}, err
}

// readRevision returns the record of a key, nil if it cannot be read, and its
// revision, empty if that is not known.
func (k *Service) readRevision(ctx context.Context, id string) (*store.Record, string, error) {
	r, err := k.backend.Get(ctx, id)
	if damaged, ok := errors.AsType[*store.DamagedError](err); ok {
		return nil, damaged.Revision, nil
	}
	if err != nil {
		return nil, "", err
	}
	return r, r.Revision, nil
}
