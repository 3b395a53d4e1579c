package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A claim is a small value in the store, named by the fingerprint of a secret,
// that holds the id of the key which uses the secret. It is laid before the
// key is written and removed when the secret is gone. One that was left behind
// by a crash is known by its key not having the secret.

func claimName(fingerprint []byte) string { return "fp:" + hex.EncodeToString(fingerprint) }

// claim takes a secret for a key, or returns ErrSecretInUse.
func (k *Keys) claim(ctx context.Context, fingerprint []byte, id string) error {
	for range changeAttempts {
		taken, err := k.tryClaim(ctx, fingerprint, id)
		if err != nil {
			return err
		}
		if taken {
			return nil
		}
	}
	return ErrConflict
}

// tryClaim reports whether the claim could be taken; false asks to try again.
func (k *Keys) tryClaim(ctx context.Context, fingerprint []byte, id string) (bool, error) {
	name := claimName(fingerprint)
	holder, err := k.backend.PutMeta(ctx, name, []byte(id))
	if err != nil {
		return false, fmt.Errorf("claiming the secret: %w", err)
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
		return false, fmt.Errorf("claiming the secret: %w", err)
	}
	now, err := k.backend.PutMeta(ctx, name, []byte(id))
	if err != nil {
		return false, fmt.Errorf("claiming the secret: %w", err)
	}
	if string(now) != id {
		return false, nil
	}
	// If the other key was written before its claim was taken away, its writer
	// saw nothing amiss, and this one must step back. If it is written from
	// now on, its writer finds its claim gone; see confirm.
	if held, err := k.holds(ctx, string(holder), fingerprint); err != nil {
		return false, err
	} else if held {
		if err := k.backend.DeleteMeta(ctx, name, []byte(id)); err != nil {
			return false, fmt.Errorf("giving the claim back: %w", err)
		}
		if _, err := k.backend.PutMeta(ctx, name, holder); err != nil {
			return false, fmt.Errorf("giving the claim back: %w", err)
		}
		return false, ErrSecretInUse
	}
	return true, nil
}

// confirm makes sure, after a record was written, that the claim on its
// secret still is its own, and takes the record back when it is not.
func (k *Keys) confirm(ctx context.Context, fingerprint []byte, r *Record) error {
	holder, err := k.backend.PutMeta(ctx, claimName(fingerprint), []byte(r.ID))
	if err != nil {
		return fmt.Errorf("confirming the claim on the secret of key %s, which was written: %w", r.ID, err)
	}
	if string(holder) == r.ID {
		return nil
	}
	if _, err := k.backend.Delete(ctx, r.ID, r.Revision); err != nil {
		return fmt.Errorf("taking back key %s, whose secret came into use elsewhere at the same time: %w", r.ID, err)
	}
	return ErrSecretInUse
}

// release removes the claim of a key on a secret that it does not have. What
// fails is left for the next claim to find.
func (k *Keys) release(ctx context.Context, fingerprint []byte, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flightTimeout)
	defer cancel()
	if held, err := k.holds(ctx, id, fingerprint); err == nil && !held {
		_ = k.backend.DeleteMeta(ctx, claimName(fingerprint), []byte(id))
	}
}

// releaseDropped releases the secrets that a key had and has no more.
func (k *Keys) releaseDropped(ctx context.Context, before, after *Record) {
	for _, s := range before.Secrets {
		kept := slices.ContainsFunc(after.Secrets, func(t SealedSecret) bool { return bytes.Equal(s.Fingerprint, t.Fingerprint) })
		if !kept {
			k.release(ctx, s.Fingerprint, before.ID)
		}
	}
}

// holds reports whether the key has the secret and the secret has not expired.
func (k *Keys) holds(ctx context.Context, id string, fingerprint []byte) (bool, error) {
	r, err := k.backend.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the key that claims the secret: %w", err)
	}
	return r.hasSecret(fingerprint, k.opt.Clock()), nil
}

func (r *Record) hasSecret(fingerprint []byte, now time.Time) bool {
	return slices.ContainsFunc(r.Secrets, func(s SealedSecret) bool {
		return s.live(now) && bytes.Equal(s.Fingerprint, fingerprint)
	})
}
