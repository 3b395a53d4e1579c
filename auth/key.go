package auth

import (
	"net/netip"
	"time"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// A Key is an API key as the judge sees it: the record of a client with its
// secrets opened. It is immutable and shared between requests.
type Key struct {
	ID       string
	Revision string // of the record it was made from; new with every change
	Tenant   string
	Scopes   Scopes
	// AllowedIPs is the whitelist of rule 6; nil allows every address.
	AllowedIPs []netip.Prefix
	ExpiresAt  time.Time // rule 4; zero: never
	Disabled   bool      // rule 3, by an operator
	Lock       *Lock     // rule 3, after the lock of rule 5 was announced
	// StampedAfter: requests with a timestamp up to it fail rule 7; zero: no
	// request does. Another store may have accepted their nonces.
	StampedAfter time.Time
	Limits       ratelimit.Overrides
	// Secrets holds the one or two live secrets, the newest first.
	Secrets []*Secret
	// Retired holds up to two secrets that have ended. They verify nothing,
	// also when their end is still ahead; see [Judgement.Retired].
	Retired []*Secret
	// DebugUntil is the time until which refusals of a live key explain
	// themselves in the answer; zero: they do not.
	DebugUntil time.Time
	// CustomerVariant is "A", "B", "C" or empty.
	CustomerVariant string
}

// A Lock is in the record of a key that was locked because of too many
// consecutive failures.
type Lock struct {
	At       time.Time `json:"at"`
	Until    time.Time `json:"until,omitzero"` // zero: until an operator unlocks it
	Failures int       `json:"failures"`       // consecutive failures that led to it
}

// Holds reports whether the lock is in force at now.
func (l *Lock) Holds(now time.Time) bool {
	return l != nil && (l.Until.IsZero() || now.Before(l.Until))
}
