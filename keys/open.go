package keys

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// open makes the key for the judge from a record. If any part of the record
// cannot be read, it returns [ErrMasterKey] or [ErrDamaged], wrapped, and no key.
func (k *Service) open(r *store.Record) (*auth.Key, error) {
	damaged := func(field string, err error) (*auth.Key, error) {
		return nil, fmt.Errorf("key %s: %s: %w: %w", r.ID, field, ErrDamaged, err)
	}
	key := &auth.Key{
		ID: r.ID, Revision: r.Revision, Tenant: r.Tenant, ExpiresAt: r.ExpiresAt, Disabled: r.Disabled,
		Lock: r.Lock, StampedAfter: r.StampedAfter, CustomerVariant: r.CustomerVariant,
		DebugUntil: debugUntil(r),
	}
	var err error
	if key.Scopes, err = auth.ParseScopes(r.Scopes); err != nil {
		return damaged("scopes", err)
	}
	if r.AllowedIPs != nil {
		if key.AllowedIPs, err = auth.ParseAllowedIPs(r.AllowedIPs); err != nil {
			return damaged("allowed_ips", err)
		}
	}
	if key.Limits, err = ratelimit.ParseOverrides(r.Limits); err != nil {
		return damaged("limits", err)
	}
	if err := checkVariant(r.CustomerVariant); err != nil {
		return damaged("customer_variant", err)
	}
	if r.Revision == "" {
		return damaged("revision", errors.New("missing"))
	}
	if key.Secrets, err = k.openSecrets(r); err != nil {
		return nil, fmt.Errorf("key %s: %w", r.ID, err)
	}
	key.Retired = k.openRetired(r)
	return key, nil
}

// openSecrets returns the secrets that have not expired, opened, the newest
// first.
func (k *Service) openSecrets(r *store.Record) ([]*auth.Secret, error) {
	now := k.opt.Clock()
	var secrets []*auth.Secret
	for i := range r.Secrets {
		s := &r.Secrets[i]
		if !s.Live(now) {
			continue
		}
		text, label, err := k.openSealed(r.ID, s)
		if err != nil {
			return nil, err
		}
		if label == retiredLabel(r.ID, s.Version) {
			continue
		}
		secrets = append(secrets, auth.NewSecret(s.Version, string(text), s.ExpiresAt))
	}
	slices.SortFunc(secrets, func(a, b *auth.Secret) int { return b.Version() - a.Version() })
	return secrets, nil
}

// secretLabel is the associated data of a sealed secret. It ties the secret to
// its key and version, so that a ciphertext does not open in place of another. A
// key id holds no line feed, so that labels differ. retiredLabel is the
// associated data of a secret that a rotation has ended before its time.
func secretLabel(id string, version int) string {
	return "secret\n" + id + "\n" + strconv.Itoa(version)
}

func retiredLabel(id string, version int) string { return "retired " + secretLabel(id, version) }
