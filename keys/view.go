package keys

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/store"
)

// The values of [View.Status]. If several apply to a key, the first of them is
// its status.
const (
	StatusDisabled = "disabled" // by an operator
	StatusLocked   = "locked"   // by too many consecutive failures
	StatusExpired  = "expired"
	StatusActive   = "active"
	// StatusForged: something other than a gateway changed the record, or it lacks the
	// seal that is required. Its requests are refused, and its fields prove nothing.
	StatusForged = "forged"
	// StatusUnreadable: the record cannot be read, so nothing else of the key is
	// known. Its requests are refused, and its seal counts as refused.
	StatusUnreadable = "unreadable"
)

// Statuses returns the closed set of [View.Status].
func Statuses() []string {
	return []string{StatusActive, StatusDisabled, StatusLocked, StatusExpired, StatusForged, StatusUnreadable}
}

// A View is a key as operators see it: everything except its secrets.
type View struct {
	ID              string                     `json:"id"`
	Tenant          string                     `json:"tenant"`
	Description     string                     `json:"description"`
	Mode            keyid.Mode                 `json:"mode"`
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
		ID: r.ID, Tenant: r.Tenant, Description: r.Description, Mode: keyid.ModeOf(r.ID), Status: statusOf(r, now),
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
		case isRetired(&s, now):
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
		ID: d.ID, Mode: keyid.ModeOf(d.ID), Status: StatusUnreadable, Revision: d.Revision, Scopes: []string{}, Secrets: []SecretView{},
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
	if v == *new(T) {
		return nil
	}
	return &v
}

// List returns up to q.Limit keys that follow the cursor, and the cursor of the
// next page, which is empty at the end. If q.Tenant, q.Status or q.Search is set,
// it returns only matching keys, and each key whose record cannot be read: nobody
// knows whose that is, so no query hides it. A page may be shorter than the limit, or
// empty, although more pages follow.
func (k *Service) List(ctx context.Context, q ListQuery) ([]View, string, error) {
	if q.Status != "" && !slices.Contains(Statuses(), q.Status) {
		return nil, "", fields.Invalid("status", "want one of %v", Statuses())
	}
	if q.Limit <= 0 || q.Limit > censusPage {
		return nil, "", fields.Invalid("limit", "want 1 to %d", censusPage)
	}
	views := make([]View, 0, min(q.Limit, 64))
	cursor := q.Cursor
	for range listReads {
		page, err := k.backend.List(ctx, cursor, q.Limit-len(views))
		if err != nil {
			return nil, "", err
		}
		for _, damaged := range page.Damaged {
			views = append(views, k.damagedView(damaged))
		}
		for _, r := range page.Records {
			v, err := k.view(ctx, r)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, "", err
			}
			if q.wants(&v) {
				views = append(views, v)
			}
		}
		cursor = page.Next
		if cursor == "" || len(views) >= q.Limit {
			break
		}
	}
	return views, cursor, nil
}

// listReads is the largest number of reads for one page.
const listReads = 20

// ListQuery chooses keys for [Service.List].
type ListQuery struct {
	Tenant, Status string // empty: all
	Search         string // a part of the id, the tenant or the description, in any case; empty: all
	Cursor         string // from the page before; empty: from the start
	Limit          int    // 1 to 500
}

func (q *ListQuery) wants(v *View) bool {
	return (q.Tenant == "" || q.Tenant == v.Tenant) && (q.Status == "" || q.Status == v.Status) &&
		(q.Search == "" || contains(v.ID, q.Search) || contains(v.Tenant, q.Search) || contains(v.Description, q.Search))
}

// contains reports whether a text has a part, in any case.
func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Show returns one key, also one whose record cannot be read, or [store.ErrNotFound].
func (k *Service) Show(ctx context.Context, id string) (View, error) {
	if !keyid.Valid(id) {
		return View{}, store.ErrNotFound
	}
	r, err := k.backend.Get(ctx, id)
	if damaged, ok := errors.AsType[*store.DamagedError](err); ok {
		return k.damagedView(damaged), nil
	}
	if err != nil {
		return View{}, err
	}
	return k.view(ctx, r)
}
