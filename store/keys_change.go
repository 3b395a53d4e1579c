package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// CreateRequest asks for a new key.
type CreateRequest struct {
	Fields
	// Mode is "live" or "test". Default: live.
	Mode auth.Mode `json:"mode,omitempty"`
}

// By says who changes a key, and on what condition.
type By struct {
	// Actor is the name for the audit log.
	Actor string
	// Revision, when set, is the one that the key must have, else ErrRevision.
	Revision string
}

// Changed is what a change leads to: the key as it is now, the secret if one
// was made, which is the only time it is shown, and whether a replica has
// acknowledged the change (nil where there are none).
type Changed struct {
	View
	Secret     string `json:"secret,omitempty"`
	Replicated *bool  `json:"replicated,omitempty"`
}

const (
	// changeAttempts bounds how often a change is tried against others.
	changeAttempts = 10
	// DefaultOverlap is how long a rotated secret lives on.
	DefaultOverlap = 24 * time.Hour
	// MaxOverlap is the longest overlap of two secrets.
	MaxOverlap = 90 * 24 * time.Hour
)

// NewRevision returns a fresh random revision of 16 hex digits.
func NewRevision() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// stamp returns the time as it is stored, to the millisecond.
func (k *Keys) stamp() time.Time { return k.opt.Clock().UTC().Truncate(time.Millisecond) }

// Create makes a key with a secret of its own. Errors: [InvalidError], else
// the store did not answer and there may or may not be a new key, which nobody
// holds the secret of.
func (k *Keys) Create(ctx context.Context, req CreateRequest, by By) (Changed, error) {
	switch req.Mode {
	case "":
		req.Mode = auth.Live
	case auth.Live, auth.Test:
	default:
		return Changed{}, invalid("mode", `want "live" or "test"`)
	}
	ids, err := k.idKey(ctx)
	if err != nil {
		return Changed{}, err
	}
	secret := auth.NewSecretText()
	changed, err := k.add(ctx, "create", &Record{ID: ids.Mint(req.Mode)}, secret, req.Fields, by)
	if err != nil {
		return Changed{}, err
	}
	changed.Secret = secret
	return changed, nil
}

// add writes a new record with its first secret.
func (k *Keys) add(ctx context.Context, action string, r *Record, secret string, f Fields, by By) (changed Changed, err error) {
	if err := k.checkFields(&f); err != nil {
		return Changed{}, err
	}
	f.store(r)
	r.Revision = NewRevision()
	r.CreatedAt = k.stamp()
	r.UpdatedAt = r.CreatedAt
	defer func() { k.report(action, nil, r, by, changed.Replicated, err) }()
	sealed, err := k.sealSecret(ctx, r.ID, 1, secret)
	if err != nil {
		return Changed{}, err
	}
	r.Secrets = []SealedSecret{sealed}
	if err := k.claim(ctx, sealed.Fingerprint, r.ID); err != nil {
		return Changed{}, err
	}
	d, err := k.backend.Put(ctx, r, PutOptions{})
	k.cache.drop(r.ID)
	if err == nil {
		err = k.confirm(ctx, sealed.Fingerprint, r)
	}
	if err != nil {
		k.release(ctx, sealed.Fingerprint, r.ID)
		return Changed{}, err
	}
	return Changed{View: viewOf(r, k.opt.Clock()), Replicated: d.Replicated}, nil
}

// List returns up to limit keys that follow the cursor (empty: from the start)
// and the cursor of the next page, empty at the end. Tenant and status, when
// set, choose. A page may be short, even empty, with more to follow.
func (k *Keys) List(ctx context.Context, q ListQuery) ([]View, string, error) {
	if q.Status != "" && !slices.Contains(Statuses(), q.Status) {
		return nil, "", invalid("status", "want one of %v", Statuses())
	}
	if q.Limit <= 0 || q.Limit > censusPage {
		return nil, "", invalid("limit", "want 1 to %d", censusPage)
	}
	now := k.opt.Clock()
	views := make([]View, 0, min(q.Limit, 64))
	cursor := q.Cursor
	for range listReads {
		records, next, err := k.backend.List(ctx, cursor, q.Limit-len(views))
		if err != nil {
			return nil, "", err
		}
		for _, r := range records {
			if v := viewOf(r, now); (q.Tenant == "" || q.Tenant == v.Tenant) && (q.Status == "" || q.Status == v.Status) {
				views = append(views, v)
			}
		}
		cursor = next
		if cursor == "" || len(views) >= q.Limit {
			break
		}
	}
	return views, cursor, nil
}

// listReads bounds the reads behind one page.
const listReads = 20

// ListQuery chooses keys for [Keys.List].
type ListQuery struct {
	Tenant, Status string // empty: all
	Cursor         string // from the page before
	Limit          int    // 1 to 500
}

// Show returns one key, or [ErrNotFound].
func (k *Keys) Show(ctx context.Context, id string) (View, error) {
	if !validID(id) {
		return View{}, ErrNotFound
	}
	r, err := k.backend.Get(ctx, id)
	if err != nil {
		return View{}, err
	}
	return viewOf(r, k.opt.Clock()), nil
}

// Update applies a JSON merge patch (RFC 7396) to the [Fields] of a key.
// Errors: [InvalidError], [ErrMalformed], [ErrNotFound], [ErrRevision],
// [ErrConflict] when others keep changing the key.
func (k *Keys) Update(ctx context.Context, id string, patch []byte, by By) (Changed, error) {
	return k.change(ctx, id, by, edit{action: "update", apply: func(r *Record) error {
		before := fieldsOf(r)
		after, err := before.patched(patch)
		if err != nil {
			return err
		}
		if err := k.checkFields(&after); err != nil {
			return err
		}
		after.store(r)
		return nil
	}})
}

// Disable makes every further request with the key fail. Errors as Update.
func (k *Keys) Disable(ctx context.Context, id string, by By) (Changed, error) {
	return k.change(ctx, id, by, edit{action: "disable", apply: func(r *Record) error { r.Disabled = true; return nil }})
}

// Enable takes back Disable, and leaves a lock as it is. Errors as Update.
func (k *Keys) Enable(ctx context.Context, id string, by By) (Changed, error) {
	return k.change(ctx, id, by, edit{action: "enable", apply: func(r *Record) error { r.Disabled = false; return nil }})
}

// Unlock clears the lock and the count of failures, and leaves a key that an
// operator disabled as it is. Errors as Update.
func (k *Keys) Unlock(ctx context.Context, id string, by By) (Changed, error) {
	return k.change(ctx, id, by, edit{action: "unlock", clearFailures: true, apply: func(r *Record) error { r.Lock = nil; return nil }})
}

// An edit is what one call does to a record.
type edit struct {
	action        string
	clearFailures bool
	apply         func(*Record) error // may be called several times, on fresh copies
}

// change applies an edit to a record as it is stored, and starts over when
// somebody else changed it meanwhile.
func (k *Keys) change(ctx context.Context, id string, by By, e edit) (changed Changed, err error) {
	if !validID(id) {
		return Changed{}, ErrNotFound
	}
	var old, r *Record
	defer func() { k.report(e.action, old, r, by, changed.Replicated, err) }()
	for range changeAttempts {
		if old, err = k.read(ctx, id, by); err != nil {
			return Changed{}, err
		}
		r = old.Clone()
		now := k.opt.Clock().UTC()
		r.Secrets = slices.DeleteFunc(r.Secrets, func(s SealedSecret) bool { return !s.live(now) })
		if err := e.apply(r); err != nil {
			return Changed{}, err
		}
		r.Revision, r.UpdatedAt = NewRevision(), k.stamp()
		var d Durability
		d, err = k.backend.Put(ctx, r, PutOptions{Expect: old.Revision, ClearFailures: e.clearFailures})
		k.cache.drop(id)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return Changed{}, fmt.Errorf("storing key %s, which may or may not have been changed: %w", id, err)
		}
		if e.clearFailures {
			r.Failures = 0
		}
		k.releaseDropped(ctx, old, r)
		return Changed{View: viewOf(r, now), Replicated: d.Replicated}, nil
	}
	return Changed{}, err
}

// read returns the record as it is stored, if it has the wanted revision.
func (k *Keys) read(ctx context.Context, id string, by By) (*Record, error) {
	r, err := k.backend.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if by.Revision != "" && by.Revision != r.Revision {
		return nil, ErrRevision
	}
	return r, nil
}

// Delete forgets a key. Errors: [ErrNotFound], [ErrRevision], [ErrConflict].
func (k *Keys) Delete(ctx context.Context, id string, by By) (d Durability, err error) {
	if !validID(id) {
		return Durability{}, ErrNotFound
	}
	var old *Record
	defer func() { k.report("delete", old, nil, by, d.Replicated, err) }()
	for range changeAttempts {
		if old, err = k.read(ctx, id, by); err != nil {
			return Durability{}, err
		}
		d, err = k.backend.Delete(ctx, id, old.Revision)
		k.cache.drop(id)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err == nil {
			k.releaseDropped(ctx, old, &Record{ID: id})
		}
		return d, err
	}
	return Durability{}, err
}
