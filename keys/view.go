package keys

import (
	"encoding/json"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// The values of [View.Status]. If several apply to a key, the first of them is
// its status.
const (
	StatusDisabled = "disabled" // by an operator
	StatusLocked   = "locked"   // by too many consecutive failures
	StatusExpired  = "expired"
	StatusActive   = "active"
	// StatusUnreadable: the record cannot be read, so nothing else of the key is
	// known. Its requests are refused, and its seal counts as refused.
	StatusUnreadable = "unreadable"
)

// Statuses returns the closed set of [View.Status].
func Statuses() []string {
	return []string{StatusActive, StatusDisabled, StatusLocked, StatusExpired, StatusUnreadable}
}

// A View is a key as operators see it: everything except its secrets.
type View struct {
	ID              string                     `json:"id"`
	Tenant          string                     `json:"tenant"`
	Description     string                     `json:"description"`
	Mode            Mode                       `json:"mode"`
	Status          string                     `json:"status"`
	Scopes          []string                   `json:"scopes"`
	AllowedIPs      []string                   `json:"allowed_ips"` // null: any address
	ExpiresAt       *time.Time                 `json:"expires_at"`
	Disabled        bool                       `json:"disabled"`
	Limits          map[string]json.RawMessage `json:"limits"`
	CustomerVariant *string                    `json:"customer_variant"`
	DebugUntil      *time.Time                 `json:"debug_until"`
	Imported        bool                       `json:"imported"`
	Failures        int                        `json:"failures"` // consecutive
	Lock            *auth.Lock                 `json:"lock"`
	Secrets         []SecretView               `json:"secrets"`
	// RetiredSecrets have ended. They verify nothing and explain refusals.
	RetiredSecrets []SecretView `json:"retired_secrets,omitempty"`
	CreatedAt      time.Time    `json:"created_at"`
	UpdatedAt      time.Time    `json:"updated_at"`
	Revision       string       `json:"revision"`
	Seal           SealView     `json:"seal"`
}

// A SecretView holds the times of a secret.
type SecretView struct {
	Version    int        `json:"version"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`   // null: with the key
	LastUsedAt *time.Time `json:"last_used_at"` // to the minute; null: never
}

// viewOf returns the view of a record at now.
func viewOf(r *store.Record, now time.Time) View {
	v := View{
		ID: r.ID, Tenant: r.Tenant, Description: r.Description, Mode: ModeOf(r.ID), Status: statusOf(r, now),
		Scopes: r.Scopes, AllowedIPs: r.AllowedIPs, ExpiresAt: optional(r.ExpiresAt), Disabled: r.Disabled,
		Limits: r.Limits, CustomerVariant: optional(r.CustomerVariant), DebugUntil: optional(r.DebugUntil),
		Imported: r.Imported, Failures: r.Failures, Lock: r.Lock,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Revision: r.Revision, Seal: sealView(r, nil),
		Secrets: make([]SecretView, 0, len(r.Secrets)),
	}
	for _, s := range r.Secrets {
		secret := SecretView{
			Version: s.Version, CreatedAt: s.CreatedAt, ExpiresAt: optional(s.ExpiresAt), LastUsedAt: optional(r.LastUsed[s.Version]),
		}
		switch {
		case s.Live(now):
			v.Secrets = append(v.Secrets, secret)
		case explains(&s, now):
			v.RetiredSecrets = append(v.RetiredSecrets, secret)
		}
	}
	return v
}

// damagedView returns what is known of a key whose record cannot be read, and reports
// the record as forged.
func (k *Service) damagedView(d *store.DamagedError) View {
	forged := damagedRecord(d)
	k.reportForged(forged)
	return View{
		ID: d.ID, Mode: ModeOf(d.ID), Status: StatusUnreadable, Revision: d.Revision, Scopes: []string{}, Secrets: []SecretView{},
		Seal: SealView{State: SealRefused, Field: forged.Field, Problem: forged.Reason()},
	}
}

// statusOf returns the status of a key at now.
func statusOf(r *store.Record, now time.Time) string {
	switch {
	case r.Disabled:
		return StatusDisabled
	case r.Lock.Holds(now):
		return StatusLocked
	case !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt):
		return StatusExpired
	default:
		return StatusActive
	}
}

// optional returns nil for the zero value, which JSON shows as null.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
