package keys

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// Rotate gives a key a new secret and lets the newest of the old ones live for
// the overlap: 0 ends it at once, at most [MaxOverlap]. A key has two live
// secrets at most, so an older one still is dropped. Errors as Update.
func (k *Service) Rotate(ctx context.Context, id string, overlap time.Duration, by By) (Changed, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return Changed{}, invalid("overlap", "want 0 to %d days", int(MaxOverlap.Hours()/24))
	}
	secret := NewSecretText()
	var sealed store.SealedSecret
	changed, err := k.change(ctx, id, by, edit{action: "rotate", apply: func(r *store.Record) (err error) {
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
		r.Secrets = append([]store.SealedSecret{sealed}, k.outgoing(r, overlap)...)
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

// outgoing returns the newest live secret of a record, ending with the
// overlap, or nothing.
func (k *Service) outgoing(r *store.Record, overlap time.Duration) []store.SealedSecret {
	if len(r.Secrets) == 0 || overlap == 0 {
		return nil
	}
	newest := slices.MaxFunc(r.Secrets, func(a, b store.SealedSecret) int { return a.Version - b.Version })
	if end := k.stamp().Add(overlap); newest.ExpiresAt.IsZero() || end.Before(newest.ExpiresAt) {
		newest.ExpiresAt = end
	}
	return []store.SealedSecret{newest}
}

// sealSecret makes the stored form of a secret.
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
