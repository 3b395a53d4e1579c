package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// The values of [View.Status], in the order in which they win.
const (
	StatusDisabled = "disabled" // by an operator
	StatusLocked   = "locked"   // by too many consecutive failures
	StatusExpired  = "expired"
	StatusActive   = "active"
)

// Statuses returns the closed set of [View.Status].
func Statuses() []string {
	return []string{StatusActive, StatusDisabled, StatusLocked, StatusExpired}
}

// A View is what an operator may see of a key: everything but its secrets.
type View struct {
	ID              string                     `json:"id"`
	Tenant          string                     `json:"tenant"`
	Description     string                     `json:"description"`
	Mode            auth.Mode                  `json:"mode"`
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
	CreatedAt       time.Time                  `json:"created_at"`
	UpdatedAt       time.Time                  `json:"updated_at"`
	Revision        string                     `json:"revision"`
}

// A SecretView says of a secret when it lives.
type SecretView struct {
	Version    int        `json:"version"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at"`   // null: as long as the key
	LastUsedAt *time.Time `json:"last_used_at"` // to the minute; null: never
}

// viewOf shows a record as it is at the moment.
func viewOf(r *Record, now time.Time) View {
	v := View{
		ID: r.ID, Tenant: r.Tenant, Description: r.Description, Mode: auth.ModeOf(r.ID), Status: statusOf(r, now),
		Scopes: r.Scopes, AllowedIPs: r.AllowedIPs, ExpiresAt: optional(r.ExpiresAt), Disabled: r.Disabled,
		Limits: r.Limits, CustomerVariant: optional(r.CustomerVariant), DebugUntil: optional(r.DebugUntil),
		Imported: r.Imported, Failures: r.Failures, Lock: r.Lock,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Revision: r.Revision,
		Secrets: make([]SecretView, 0, len(r.Secrets)),
	}
	for _, s := range r.Secrets {
		v.Secrets = append(v.Secrets, SecretView{
			Version: s.Version, CreatedAt: s.CreatedAt, ExpiresAt: optional(s.ExpiresAt), LastUsedAt: optional(r.LastUsed[s.Version]),
		})
	}
	return v
}

// statusOf derives the status of a key at the moment.
func statusOf(r *Record, now time.Time) string {
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

// A Census counts the keys.
type Census struct {
	// Keys by status; every member of [Statuses] is there.
	Keys map[string]int `json:"keys"`
	// Expiring counts the active keys that expire within "1d", "7d" and "30d";
	// a key that expires within a day counts in all three.
	Expiring map[string]int `json:"expiring"`
}

// censusPage is how many records are read at once where all are wanted.
const censusPage = 500

// Census reads all keys and counts them. Records are read in pages, so that
// keys made or deleted meanwhile may be missed.
func (k *Keys) Census(ctx context.Context) (Census, error) {
	c := Census{Keys: make(map[string]int), Expiring: map[string]int{"1d": 0, "7d": 0, "30d": 0}}
	for _, status := range Statuses() {
		c.Keys[status] = 0
	}
	now := k.opt.Clock()
	err := each(ctx, k.backend, func(r *Record) error {
		status := statusOf(r, now)
		c.Keys[status]++
		if status != StatusActive || r.ExpiresAt.IsZero() {
			return nil
		}
		const day = 24 * time.Hour
		for within, span := range map[string]time.Duration{"1d": day, "7d": 7 * day, "30d": 30 * day} {
			if r.ExpiresAt.Sub(now) <= span {
				c.Expiring[within]++
			}
		}
		return nil
	})
	return c, err
}

// each calls f for every record of a backend until f returns an error.
func each(ctx context.Context, backend Backend, f func(*Record) error) error {
	for cursor := ""; ; {
		records, next, err := backend.List(ctx, cursor, censusPage)
		if err != nil {
			return err
		}
		for _, r := range records {
			if err := f(r); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// KeysStatus is what an operator asks first.
type KeysStatus struct {
	Store Status `json:"store"`
	Census
	// Problem says why the keys could not be counted; empty when they were.
	Problem string `json:"problem,omitempty"`
}

// Status describes the backend and counts the keys. It never fails: what is
// wrong is part of the answer.
func (k *Keys) Status(ctx context.Context) KeysStatus {
	s := KeysStatus{Store: k.backend.Status(ctx)}
	var err error
	if s.Census, err = k.Census(ctx); err != nil {
		s.Problem = "counting the keys: " + err.Error()
	}
	return s
}
