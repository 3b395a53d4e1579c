package keys

import (
	"context"
	"crypto/rand"
	"time"

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
		return Changed{}, k.refuse(attempt{action: "rotate", id: id, by: by, err: invalid("overlap", "want 0 to %d days", int(MaxOverlap.Hours()/24))})
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
	return lowerBase32.EncodeToString(b[:])
}

const (
	// DefaultOverlap is how long the old secret lives after a rotation.
	DefaultOverlap = 24 * time.Hour
	// MaxOverlap is the longest overlap of two secrets.
	MaxOverlap = 90 * 24 * time.Hour
)
