package keys

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// A Rotation is what happens to the old secrets of a key.
type Rotation struct {
	// Overlap is how long the newest of them still lives: 0 ends it at once; at
	// most [MaxOverlap].
	Overlap time.Duration
	// Forget drops the retired secrets, with those that this rotation ends.
	// Otherwise they are kept sealed for 30 days.
	Forget bool

	// allows returns nil if the record may be rotated at now; nil: any may.
	allows func(r *store.Record, now time.Time) error
}

// Rotate adds a new secret to a key, returns it, and ends the newest of the old
// ones after the overlap. A key has at most two live secrets, so an older one
// ends at once. Errors as Update.
func (k *Service) Rotate(ctx context.Context, id string, how Rotation, by By) (Changed, error) {
	if how.Overlap < 0 || how.Overlap > MaxOverlap {
		return Changed{}, k.refuse(attempt{action: "rotate", id: id, by: by, err: fields.Invalid("overlap", "want 0 to %d days", int(MaxOverlap.Hours()/24))})
	}
	secret := NewSecretText()
	var sealed store.SealedSecret
	changed, err := k.change(ctx, id, by, edit{action: "rotate", apply: func(r *store.Record) (err error) {
		if how.allows != nil {
			if err := how.allows(r, k.opt.Clock()); err != nil {
				return err
			}
		}
		version := 1
		for _, s := range r.Secrets {
			version = max(version, s.Version+1)
		}
		if sealed, err = k.sealSecret(ctx, id, version, secret); err != nil {
			return err
		}
		if err := k.reserve(ctx, sealed.Fingerprint, id); err != nil {
			return err
		}
		now := k.stamp()
		k.replaceSecret(r, sealed, now, now.Add(how.Overlap))
		if how.Forget {
			dropRetired(r, now)
		}
		return nil
	}})
	if err != nil {
		if sealed.Fingerprint != nil {
			k.release(ctx, sealed.Fingerprint, id)
		}
		return Changed{}, err
	}
	changed.Secret = secret
	return changed, nil
}

// sealSecret returns the stored form of a secret.
func (k *Service) sealSecret(ctx context.Context, id string, version int, text string) (store.SealedSecret, error) {
	ids, err := k.idKey(ctx)
	if err != nil {
		return store.SealedSecret{}, err
	}
	return store.SealedSecret{
		Version: version, Sealed: k.ring.Seal([]byte(text), secretLabel(id, version)),
		Fingerprint: ids.Fingerprint(text), CreatedAt: k.stamp(),
	}, nil
}

// NewSecretText returns a new signing secret of 256 random bits: 52 of the
// characters a-z and 2-7, which shells, .env files and URLs leave alone.
func NewSecretText() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

const (
	// DefaultOverlap is how long the old secret lives after a rotation.
	DefaultOverlap = 24 * time.Hour
	// MaxOverlap is the longest overlap of two secrets.
	MaxOverlap = 90 * 24 * time.Hour
)

// Errors of [Service.RotateByHolder].
var (
	// ErrNotActive means that the key is disabled, locked or expired.
	ErrNotActive = errors.New("the key is disabled, locked or expired")
	// ErrOldSecret means that the request was not signed with the newest secret.
	ErrOldSecret = errors.New("a newer secret exists, and only its holder may rotate the key")
	// ErrTwoSecrets means that the secret before the newest is still live.
	ErrTwoSecrets = errors.New("the secret before the newest has not ended yet")
)

// RotateByHolder is [Service.Rotate] at the wish of the key's holder, who has
// signed with the secret of the version. The audit log names the key as the
// actor.
//
// The key must be active, the secret its newest, and no other secret of it
// live. So whoever has a secret that was replaced cannot make another one, and
// no rotation ends a secret before its time. Beside the errors of Rotate there
// are [ErrNotActive], [ErrOldSecret] and [ErrTwoSecrets].
func (k *Service) RotateByHolder(ctx context.Context, id string, version int, overlap time.Duration) (Changed, error) {
	how := Rotation{Overlap: overlap, allows: func(r *store.Record, now time.Time) error {
		return mayRotate(r, version, now)
	}}
	return k.Rotate(ctx, id, how, By{Actor: id})
}

func mayRotate(r *store.Record, version int, now time.Time) error {
	newest, live := 0, 0
	for i := range r.Secrets {
		if s := &r.Secrets[i]; s.Live(now) {
			newest, live = max(newest, s.Version), live+1
		}
	}
	switch {
	case statusOf(r, now) != StatusActive:
		return ErrNotActive
	case version != newest:
		return ErrOldSecret
	case live > 1:
		return ErrTwoSecrets
	default:
		return nil
	}
}

// A secret that has ended stays in the record for a while. It verifies nothing,
// but it shows that a client that still signs with it is no stranger.
//
// A secret that a rotation has ended before its time is sealed under a separate
// label. So a gateway whose clock is behind cannot take it for a live one.
const (
	retiredFor = 30 * 24 * time.Hour
	maxRetired = 2
)

// isRetired reports whether an ended secret is still of use at now.
func isRetired(s *store.SealedSecret, now time.Time) bool {
	return !s.Live(now) && now.Sub(s.ExpiresAt) < retiredFor
}

// dropOutdated leaves the live secrets of a record and the two newest that have
// ended in the last 30 days, the newest first.
func dropOutdated(r *store.Record, now time.Time) {
	slices.SortFunc(r.Secrets, func(a, b store.SealedSecret) int { return b.Version - a.Version })
	retired := 0
	r.Secrets = slices.DeleteFunc(r.Secrets, func(s store.SealedSecret) bool {
		if s.Live(now) {
			return false
		}
		if isRetired(&s, now) {
			retired++
			return retired > maxRetired
		}
		return true
	})
}

// dropRetired leaves the live secrets of a record.
func dropRetired(r *store.Record, now time.Time) {
	r.Secrets = slices.DeleteFunc(r.Secrets, func(s store.SealedSecret) bool { return !s.Live(now) })
}

// dropUnopenable drops the secrets that have ended and cannot be opened. A key does not
// need them.
func (k *Service) dropUnopenable(r *store.Record) {
	now := k.opt.Clock()
	r.Secrets = slices.DeleteFunc(r.Secrets, func(s store.SealedSecret) bool {
		_, _, err := k.openSealed(r.ID, &s)
		return err != nil && !s.Live(now)
	})
}

// replaceSecret makes a secret the newest of a record. The previous newest one
// lives until end, or until its own earlier end. All others end at now. A secret
// that cannot be opened is dropped.
func (k *Service) replaceSecret(r *store.Record, fresh store.SealedSecret, now, end time.Time) {
	dropOutdated(r, now)
	secrets := []store.SealedSecret{fresh}
	for i, s := range r.Secrets {
		switch {
		case !s.Live(now):
		case i == 0 && now.Before(end):
			if s.Live(end) {
				s.ExpiresAt = end
			}
		default:
			text, _, err := k.openSealed(r.ID, &s)
			if err != nil {
				continue
			}
			s.ExpiresAt, s.Sealed = now, k.ring.Seal(text, retiredLabel(r.ID, s.Version))
		}
		secrets = append(secrets, s)
	}
	r.Secrets = secrets
	dropOutdated(r, now)
}

// openSecrets opens the live secrets of a record, and those that have ended, the newest
// first. It leaves out ended ones that cannot be opened, because they only explain
// failures.
func (k *Service) openSecrets(r *store.Record) (live, retired []*auth.Secret, err error) {
	now := k.opt.Clock()
	r = r.Clone()
	dropOutdated(r, now)
	for i := range r.Secrets {
		s := &r.Secrets[i]
		switch text, label, err := k.openSealed(r.ID, s); {
		case err != nil && s.Live(now):
			return nil, nil, err
		case err != nil:
		case s.Live(now) && label == secretLabel(r.ID, s.Version):
			live = append(live, auth.NewSecret(s.Version, string(text), s.ExpiresAt))
		default:
			retired = append(retired, auth.NewSecret(s.Version, string(text), s.ExpiresAt))
		}
	}
	return live, retired, nil
}

// openSealed opens a secret of a key, live or retired, and returns the label
// that it is sealed under.
func (k *Service) openSealed(id string, s *store.SealedSecret) (text []byte, label string, err error) {
	for _, label = range []string{secretLabel(id, s.Version), retiredLabel(id, s.Version)} {
		if text, _, err = k.ring.Open(s.Sealed, label); !errors.Is(err, keyring.ErrDamaged) {
			break
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("secret %d: %w", s.Version, err)
	}
	return text, label, nil
}

// openAll calls use with each secret of a record, opened, without those that have ended
// and cannot be opened, which it drops.
func (k *Service) openAll(r *store.Record, use func(s *store.SealedSecret, text []byte, label string) error) error {
	k.dropUnopenable(r)
	for i := range r.Secrets {
		text, label, err := k.openSealed(r.ID, &r.Secrets[i])
		if err == nil {
			err = use(&r.Secrets[i], text, label)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reservationName names the reservation of a secret: a small value in the
// store, named by the secret's fingerprint, that holds the id of the key which
// uses the secret. It is made before the key is written, and removed when the
// key no longer has the secret. If its key does not have the secret, a crash has
// left the reservation behind.
func reservationName(fingerprint []byte) string { return "fp:" + hex.EncodeToString(fingerprint) }

// reserve reserves a secret for a key, or returns ErrSecretInUse.
func (k *Service) reserve(ctx context.Context, fingerprint []byte, id string) error {
	for range changeAttempts {
		taken, err := k.tryReserve(ctx, fingerprint, id)
		switch {
		case errors.Is(err, ErrSecretInUse):
			return ErrSecretInUse
		case err != nil:
			return fmt.Errorf("reserving the secret: %w", err)
		case taken:
			return nil
		}
	}
	return store.ErrConflict
}

// tryReserve reports whether the reservation was made. False means: try again.
func (k *Service) tryReserve(ctx context.Context, fingerprint []byte, id string) (bool, error) {
	name := reservationName(fingerprint)
	holder, err := k.backend.PutMeta(ctx, name, []byte(id))
	if err != nil || string(holder) == id {
		return err == nil, err
	}
	if err := k.mustNotHold(ctx, string(holder), fingerprint); err != nil {
		return false, err
	}
	// Left behind by a crash, or its key is being written at this moment.
	if err := k.backend.DeleteMeta(ctx, name, holder); err != nil {
		return false, err
	}
	now, err := k.backend.PutMeta(ctx, name, []byte(id))
	if err != nil || string(now) != id {
		return false, err
	}
	// If the other key was written before its reservation was removed, its writer
	// has noticed nothing, and this reservation must be undone. If it is written
	// later, its writer notices; see confirmReservation.
	err = k.mustNotHold(ctx, string(holder), fingerprint)
	if errors.Is(err, ErrSecretInUse) {
		undone := k.backend.DeleteMeta(ctx, name, []byte(id))
		if undone == nil {
			_, undone = k.backend.PutMeta(ctx, name, holder)
		}
		if undone != nil {
			err = fmt.Errorf("giving the reservation back: %w", undone)
		}
	}
	return err == nil, err
}

// confirmReservation makes sure, after a record was written, that its secret is
// still reserved for it, and deletes the record again when it is not.
func (k *Service) confirmReservation(ctx context.Context, fingerprint []byte, r *store.Record) error {
	holder, err := k.backend.PutMeta(ctx, reservationName(fingerprint), []byte(r.ID))
	if err != nil {
		return fmt.Errorf("confirming the reservation of the secret of key %s, which was written: %w", r.ID, err)
	}
	if string(holder) == r.ID {
		return nil
	}
	if _, err := k.backend.Delete(ctx, r.ID, r.Revision); err != nil {
		return fmt.Errorf("taking back key %s, whose secret came into use elsewhere at the same time: %w", r.ID, err)
	}
	return ErrSecretInUse
}

// release removes the reservation of a secret that the key does not have. When
// that fails, the next reserve finds what was left.
func (k *Service) release(ctx context.Context, fingerprint []byte, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flightTimeout)
	defer cancel()
	if k.mustNotHold(ctx, id, fingerprint) == nil {
		_ = k.backend.DeleteMeta(ctx, reservationName(fingerprint), []byte(id))
	}
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
			k.releaseDropped(ctx, &store.Record{ID: r.ID, Secrets: reserved}, &store.Record{})
			return err
		}
		reserved = append(reserved, s)
	}
	r.Secrets = reserved
	return nil
}

// releaseDropped releases the secrets that a key no longer has.
func (k *Service) releaseDropped(ctx context.Context, before, after *store.Record) {
	for _, s := range before.Secrets {
		kept := slices.ContainsFunc(after.Secrets, func(t store.SealedSecret) bool { return bytes.Equal(s.Fingerprint, t.Fingerprint) })
		if !kept {
			k.release(ctx, s.Fingerprint, before.ID)
		}
	}
}

// mustNotHold returns ErrSecretInUse if the key has the secret, live or retired.
func (k *Service) mustNotHold(ctx context.Context, id string, fingerprint []byte) error {
	r, err := k.backend.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the key that it is reserved for: %w", err)
	}
	now := k.opt.Clock()
	if slices.ContainsFunc(r.Secrets, func(s store.SealedSecret) bool {
		return (s.Live(now) || isRetired(&s, now)) && bytes.Equal(s.Fingerprint, fingerprint)
	}) {
		return ErrSecretInUse
	}
	return nil
}
