package store

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// Fields are the fields of a key that an operator sets and may change.
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
	// Disabled makes the gateway refuse the key.
	Disabled bool `json:"disabled,omitempty"`
	// Limits override the configured rate limits, by operation or "default"
	// or "total": `"60/1m burst 10"` or `{"limit":"…","until":"…"}`.
	Limits map[string]json.RawMessage `json:"limits,omitempty"`
	// CustomerVariant is "A", "B", "C" or null.
	CustomerVariant string `json:"customer_variant,omitempty"`
	// DebugUntil is the time until which refusals of a live key say in the
	// answer what was wrong: at most 24 hours ahead when it is set; null: they
	// do not.
	DebugUntil time.Time `json:"debug_until,omitzero"`
}

// A Record is a key as it is stored: everything but plain secrets. Backends
// write its JSON form. Failures and LastUsed are not part of that: a backend
// keeps them beside the record and sets them when it reads the record.
type Record struct {
	ID       string `json:"id"`
	Revision string `json:"revision"`
	Fields
	Imported bool `json:"imported,omitempty"`
	// StampedAfter, when set, makes the gateway refuse requests that are stamped
	// up to it. The store that the key was copied from may have accepted them.
	StampedAfter time.Time      `json:"stamped_after,omitzero"`
	CreatedAt    time.Time      `json:"created_at"`
	UpdatedAt    time.Time      `json:"updated_at"`
	Secrets      []SealedSecret `json:"secrets"`
	Lock         *auth.Lock     `json:"lock,omitempty"`
	// Seal shows that a gateway wrote the record. Backends keep it as it is, and
	// know nothing of what it holds; nil: there is none.
	Seal []byte `json:"seal,omitempty"`

	Failures int `json:"-"`
	// LastUsed holds, for each secret version, the minute in which a request was
	// last accepted with it.
	LastUsed map[int]time.Time `json:"-"`
}

// A SealedSecret is one secret of a key, sealed under the master key with the
// key id and the version as associated data.
type SealedSecret struct {
	Version     int       `json:"version"`
	Sealed      []byte    `json:"sealed"`
	Fingerprint []byte    `json:"fingerprint"` // keyed; equal for equal secrets, so that they are found without opening them
	CreatedAt   time.Time `json:"created_at"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
}

// Live reports whether the secret has not expired at now.
func (s *SealedSecret) Live(now time.Time) bool {
	return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt)
}

// Clone returns a deep copy of the record.
func (r *Record) Clone() *Record {
	c := *r
	c.Scopes = append([]string(nil), r.Scopes...)
	c.AllowedIPs = slices.Clone(r.AllowedIPs)
	c.Secrets = append([]SealedSecret(nil), r.Secrets...)
	c.Seal = slices.Clone(r.Seal)
	if r.Limits != nil {
		c.Limits = make(map[string]json.RawMessage, len(r.Limits))
		for k, v := range r.Limits {
			c.Limits[k] = append(json.RawMessage(nil), v...)
		}
	}
	if r.Lock != nil {
		c.Lock = new(*r.Lock)
	}
	c.LastUsed = maps.Clone(r.LastUsed)
	return &c
}

// A Page is a part of the listing of all keys.
type Page struct {
	Records []*Record
	// Damaged are the other keys of the page. Nothing is known of them but that
	// they exist.
	Damaged []*DamagedError
	Next    string // the cursor of the next page; empty at the end
}
