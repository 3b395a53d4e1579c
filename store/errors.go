package store

import (
	"errors"
	"fmt"
)

// Errors that every backend returns, possibly wrapped. Any other error means
// that the backend could not answer: the request is refused with 503.
var (
	ErrNotFound    = errors.New("no such key")
	ErrConflict    = errors.New("the key was changed by somebody else at the same time")
	ErrExists      = errors.New("a key of this id exists already")
	ErrUnavailable = errors.New("the store cannot answer")
	// ErrFull means that a cap on live nonces is reached. A backend never drops
	// a live nonce to make room. ErrFull wraps ErrUnavailable.
	ErrFull = fmt.Errorf("%w: it holds as many live nonces as it may", ErrUnavailable)
)

// A DamagedError means that the record of a key cannot be read, because something
// other than a gateway has written it. It is an [ErrUnavailable].
type DamagedError struct {
	ID    string // of the key
	Field string // one of [DamagedFields]
	// Revision of the record, with which it can be deleted; empty: it has none.
	Revision string
	Cause    error // without anything that the record holds
}

// The values of [DamagedError.Field].
const (
	DamagedDocument = "document" // the whole, or what no other value names
	DamagedID       = "id"       // it is the record of another key
	DamagedFailures = "failures"
	DamagedLock     = "lock"
	DamagedLastUsed = "last_used"
)

// DamagedFields returns the closed set of [DamagedError.Field].
func DamagedFields() []string {
	return []string{DamagedDocument, DamagedID, DamagedFailures, DamagedLock, DamagedLastUsed}
}

// Error returns the key, the field and the cause.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%v: the record of key %q is damaged: %s: %v", ErrUnavailable, e.ID, e.Field, e.Cause)
}

// Unwrap returns [ErrUnavailable].
func (e *DamagedError) Unwrap() error { return ErrUnavailable }
