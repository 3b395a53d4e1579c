package store

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A Record is what is stored of a key: everything but plain secrets. Its JSON
// form is what the backends write. Failures is state that the backend keeps
// beside the record and fills in on reading.
type Record struct {
	ID              string                     `json:"id"`
	Revision        string                     `json:"revision"`
	Tenant          string                     `json:"tenant"`
	Description     string                     `json:"description,omitempty"`
	Scopes          []string                   `json:"scopes"`
	AllowedIPs      []string                   `json:"allowed_ips"` // nil: any; an empty list is none
	ExpiresAt       time.Time                  `json:"expires_at,omitzero"`
	Disabled        bool                       `json:"disabled,omitempty"`
	Limits          map[string]json.RawMessage `json:"limits,omitempty"`
	CustomerVariant string                     `json:"customer_variant,omitempty"`
	DebugUntil      time.Time                  `json:"debug_until,omitzero"`
	Imported        bool                       `json:"imported,omitempty"`
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
	Fingerprint []byte    `json:"fingerprint"` // keyed; tells equal secrets apart without opening them
	CreatedAt   time.Time `json:"created_at"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
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
