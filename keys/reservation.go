package keys

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

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
		if err != nil {
			return err
		}
		if taken {
			return nil
		}
	}
	return store.ErrConflict
}

// tryReserve reports whether the reservation was made. False means: try again.
func (k *Service) tryReserve(ctx context.Context, fingerprint []byte, id string) (bool, error) {
	name := reservationName(fingerprint)
	holder, err := k.backend.PutMeta(ctx, name, []byte(id))
	if err != nil {
		return false, fmt.Errorf("reserving the secret: %w", err)
	}
	if string(holder) == id {
		return true, nil
	}
	if held, err := k.holds(ctx, string(holder), fingerprint); err != nil {
		return false, err
	} else if held {
		return false, ErrSecretInUse
	}
	// Left behind by a crash, or its key is being written at this moment.
	if err := k.backend.DeleteMeta(ctx, name, holder); err != nil {
		return false, fmt.Errorf("reserving the secret: %w", err)
	}
	now, err := k.backend.PutMeta(ctx, name, []byte(id))
	if err != nil {
		return false, fmt.Errorf("reserving the secret: %w", err)
	}
	if string(now) != id {
		return false, nil
	}
	// If the other key was written before its reservation was removed, its writer
	// has noticed nothing, and this reservation must be undone. If it is written
	// later, its writer notices; see confirmReservation.
	if held, err := k.holds(ctx, string(holder), fingerprint); err != nil {
		return false, err
	} else if held {
		if err := k.backend.DeleteMeta(ctx, name, []byte(id)); err != nil {
			return false, fmt.Errorf("giving the reservation back: %w", err)
		}
		if _, err := k.backend.PutMeta(ctx, name, holder); err != nil {
			return false, fmt.Errorf("giving the reservation back: %w", err)
		}
		return false, ErrSecretInUse
	}
	return true, nil
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
	if held, err := k.holds(ctx, id, fingerprint); err == nil && !held {
		_ = k.backend.DeleteMeta(ctx, reservationName(fingerprint), []byte(id))
	}
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

// holds reports whether the key has the secret, live or retired.
func (k *Service) holds(ctx context.Context, id string, fingerprint []byte) (bool, error) {
	r, err := k.backend.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the key that the secret is reserved for: %w", err)
	}
	return hasSecret(r, fingerprint, k.opt.Clock()), nil
}

func hasSecret(r *store.Record, fingerprint []byte, now time.Time) bool {
	return slices.ContainsFunc(r.Secrets, func(s store.SealedSecret) bool {
		return (s.Live(now) || explains(&s, now)) && bytes.Equal(s.Fingerprint, fingerprint)
	})
}
