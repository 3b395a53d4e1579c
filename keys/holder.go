package keys

import (
	"context"
	"errors"
	"time"

	"github.com/card-gateway/card-gateway/store"
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

func isHolderError(err error) bool {
	return errors.Is(err, ErrNotActive) || errors.Is(err, ErrOldSecret) || errors.Is(err, ErrTwoSecrets)
}

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
