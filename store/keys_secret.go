package store

import (
	"context"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// ImportRequest takes over a key of an earlier system.
type ImportRequest struct {
	Fields
	// ID is 1 to 128 letters, digits and `. _ ~ : @ + = -`.
	ID string `json:"id"`
	// Secret is 16 to 1024 bytes of text without control characters.
	Secret string `json:"secret"`
}

const (
	minImportedSecret = 16
	maxImportedSecret = 1024
)

// Import makes a key of a given id and secret. Errors: [InvalidError],
// [ErrExists] when there is a key of this id, [ErrSecretInUse].
func (k *Keys) Import(ctx context.Context, req ImportRequest, by By) (Changed, error) {
	if !validID(req.ID) {
		return Changed{}, invalid("id", "want 1 to %d letters, digits and . _ ~ : @ + = -", maxIDLength)
	}
	if len(req.Secret) < minImportedSecret {
		return Changed{}, invalid("secret", "want at least %d bytes; a shorter one can be guessed", minImportedSecret)
	}
	if err := checkText("secret", req.Secret, maxImportedSecret); err != nil {
		return Changed{}, err
	}
	if uniform([]byte(req.Secret)) {
		return Changed{}, invalid("secret", "one character repeated can be guessed")
	}
	return k.add(ctx, "import", &Record{ID: req.ID, Imported: true}, req.Secret, req.Fields, by)
}

// Rotate gives a key a new secret and lets the newest of the old ones live for
// the overlap: 0 ends it at once, at most [MaxOverlap]. A key has two live
// secrets at most, so an older one still is dropped. Errors as Update.
func (k *Keys) Rotate(ctx context.Context, id string, overlap time.Duration, by By) (Changed, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return Changed{}, invalid("overlap", "want 0 to %d days", int(MaxOverlap.Hours()/24))
	}
	secret := auth.NewSecretText()
	var sealed SealedSecret
	changed, err := k.change(ctx, id, by, edit{action: "rotate", apply: func(r *Record) (err error) {
		version := 1
		for _, s := range r.Secrets {
			version = max(version, s.Version+1)
		}
		if sealed, err = k.sealSecret(ctx, id, version, secret); err != nil {
			return err
		}
		if err := k.claim(ctx, sealed.Fingerprint, id); err != nil {
			return err
		}
		r.Secrets = append([]SealedSecret{sealed}, k.outgoing(r, overlap)...)
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
func (k *Keys) outgoing(r *Record, overlap time.Duration) []SealedSecret {
	if len(r.Secrets) == 0 || overlap == 0 {
		return nil
	}
	newest := slices.MaxFunc(r.Secrets, func(a, b SealedSecret) int { return a.Version - b.Version })
	if end := k.stamp().Add(overlap); newest.ExpiresAt.IsZero() || end.Before(newest.ExpiresAt) {
		newest.ExpiresAt = end
	}
	return []SealedSecret{newest}
}

// sealSecret makes the stored form of a secret.
func (k *Keys) sealSecret(ctx context.Context, id string, version int, text string) (SealedSecret, error) {
	ids, err := k.idKey(ctx)
	if err != nil {
		return SealedSecret{}, err
	}
	return SealedSecret{
		Version: version, Sealed: k.ring.Seal([]byte(text), secretLabel(id, version)),
		Fingerprint: ids.Fingerprint(text), CreatedAt: k.stamp(),
	}, nil
}
