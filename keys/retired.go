package keys

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// A secret that has ended stays in the record for a while. It verifies nothing,
// but it shows that a client that still signs with it is no stranger.
//
// A secret that a rotation has ended before its time is sealed under a separate
// label. So a gateway whose clock is behind cannot take it for a live one.
const (
	retiredFor = 30 * 24 * time.Hour
	maxRetired = 2
)

// explains reports whether an ended secret is still of use at now.
func explains(s *store.SealedSecret, now time.Time) bool {
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
		if explains(&s, now) {
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

// dropShut drops the secrets that have ended and cannot be opened. A key does not
// need them.
func (k *Service) dropShut(r *store.Record) {
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

// openRetired opens the secrets that have ended. It leaves out those that cannot be
// opened, because they only explain failures.
func (k *Service) openRetired(r *store.Record) []*auth.Secret {
	now := k.opt.Clock()
	r = r.Clone()
	dropOutdated(r, now)
	var secrets []*auth.Secret
	for i := range r.Secrets {
		s := &r.Secrets[i]
		if text, label, err := k.openSealed(r.ID, s); err == nil && (!s.Live(now) || label == retiredLabel(r.ID, s.Version)) {
			secrets = append(secrets, auth.NewSecret(s.Version, string(text), s.ExpiresAt))
		}
	}
	return secrets
}

// openSealed opens a secret of a key, live or retired, and returns the label
// that it is sealed under.
func (k *Service) openSealed(id string, s *store.SealedSecret) (text []byte, label string, err error) {
	for _, label = range []string{secretLabel(id, s.Version), retiredLabel(id, s.Version)} {
		if text, _, err = k.ring.Open(s.Sealed, label); !errors.Is(err, ErrDamaged) {
			break
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("secret %d: %w", s.Version, err)
	}
	return text, label, nil
}
