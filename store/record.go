package store

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// Fields are what an operator decides of a key and may change later.
type Fields struct {
	// Tenant is the client organisation: 1 to 64 of `A-Za-z0-9._-`. Required.
	Tenant string `json:"tenant"`
	// Description is free text of up to 500 bytes.
	Description string `json:"description,omitempty"`
	// Scopes are what the key may do. Required, at least one.
	Scopes []string `json:"scopes"`
	// AllowedIPs is the whitelist of addresses and CIDR blocks; null: any
	// address. An empty list is refused.
	AllowedIPs []string `json:"allowed_ips"`
	// ExpiresAt ends the key; null: never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Disabled keys are refused.
	Disabled bool `json:"disabled,omitempty"`
	// Limits override the configured rate limits, by operation or "default"
	// or "total": `"60/1m burst 10"` or `{"limit":"…","until":"…"}`.
	Limits map[string]json.RawMessage `json:"limits,omitempty"`
	// CustomerVariant is "A", "B", "C" or null.
	CustomerVariant string `json:"customer_variant,omitempty"`
	// DebugUntil allows help with failing signatures until that time.
	DebugUntil time.Time `json:"debug_until,omitzero"`
}

// A Record is what is stored of a key: everything but plain secrets. Its JSON
// form is what the backends write. Failures is state that the backend keeps
// beside the record and fills in on reading.
type Record struct {
	ID       string `json:"id"`
	Revision string `json:"revision"`
	Fields
	Imported bool `json:"imported,omitempty"`
	// StampedAfter, when set, refuses requests that are stamped up to it: the
	// nonces of those may have been accepted by the store it was copied from.
	StampedAfter time.Time      `json:"stamped_after,omitzero"`
	CreatedAt    time.Time      `json:"created_at"`
	UpdatedAt    time.Time      `json:"updated_at"`
	Secrets      []SealedSecret `json:"secrets"`
	Lock         *auth.Lock     `json:"lock,omitempty"`

	Failures int `json:"-"`
	// LastUsed holds, by secret version, when a request was last accepted with
	// it, to the minute; state that the backend keeps beside the record.
	LastUsed map[int]time.Time `json:"-"`
}

// A SealedSecret is one secret of a key, sealed under the master key with the
// key id and the version as associated data.
type SealedSecret struct {
	Version     int       `json:"version"`
	Sealed      []byte    `json:"sealed"`
	Fingerprint []byte    `json:"fingerprint"` // keyed; the same for equal secrets
	CreatedAt   time.Time `json:"created_at"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
}

// Live reports whether the secret is accepted at now.
func (s *SealedSecret) Live(now time.Time) bool {
	return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt)
}

// Clone returns a deep copy that may be changed freely.
func (r *Record) Clone() *Record {
	c := *r
	c.Scopes = append([]string(nil), r.Scopes...)
	c.AllowedIPs = slices.Clone(r.AllowedIPs)
	c.Secrets = append([]SealedSecret(nil), r.Secrets...)
	if r.Limits != nil {
		c.Limits = make(map[string]json.RawMessage, len(r.Limits))
		for k, v := range r.Limits {
			c.Limits[k] = append(json.RawMessage(nil), v...)
		}
	}
	if r.Lock != nil {
		l := *r.Lock
		c.Lock = &l
	}
	if r.LastUsed != nil {
		c.LastUsed = make(map[int]time.Time, len(r.LastUsed))
		for k, v := range r.LastUsed {
			c.LastUsed[k] = v
		}
	}
	return &c
}
