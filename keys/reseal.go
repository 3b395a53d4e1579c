package keys

import (
	"context"
	"errors"
	"slices"

	"github.com/card-gateway/card-gateway/store"
)

// reseal finds all secrets and records that are sealed under another master key
// than the first, and seals them under the first. A record that cannot be read or
// opened, or that was forged, stays as it is, and one without a seal gets none. After an
// error of the backend, reseal stops. The next start tries the remaining records.
func (k *Service) reseal(ctx context.Context) {
	_ = each(ctx, k.backend, func(*store.DamagedError) {}, func(r *store.Record) error {
		if !slices.ContainsFunc(r.Secrets, k.old) && (len(r.Seal) == 0 || k.ring.current(r.Seal)) {
			return nil
		}
		_, err := k.change(ctx, r.ID, By{Actor: GatewayActor}, edit{action: "reseal", apply: k.resealRecord})
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrMasterKey) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrForged) {
			return nil
		}
		return err
	})
}

func (k *Service) old(s store.SealedSecret) bool { return !k.ring.current(s.Sealed) }

func (k *Service) resealRecord(r *store.Record) error {
	k.dropShut(r)
	for i := range r.Secrets {
		s := &r.Secrets[i]
		if !k.old(*s) {
			continue
		}
		text, label, err := k.openSealed(r.ID, s)
		if err != nil {
			return err
		}
		s.Sealed = k.ring.Seal(text, label)
	}
	return nil
}
