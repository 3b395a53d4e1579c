package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/card-gateway/card-gateway/store"
)

// ErrForged means that a record is not as a gateway has written it.
var ErrForged = errors.New("the record was changed by something other than a gateway")

// A ForgedError is an [ErrForged]. It names the key and the field.
type ForgedError struct {
	KeyID string
	// Field is the first field that is not as it was written, one of
	// [ForgedFields].
	Field string
	cause error
}

// Error returns the key, the field and the reason.
func (e *ForgedError) Error() string {
	return fmt.Sprintf("key %s: %v: %s: %s", e.KeyID, ErrForged, e.Field, e.Reason())
}

// Reason returns what is wrong with the field.
func (e *ForgedError) Reason() string {
	var damaged *store.DamagedError
	if errors.As(e.cause, &damaged) {
		return fmt.Sprintf("the record cannot be read (%v): restore it from a backup of the store by card-keys restore, or delete the key and make another", damaged.Cause)
	}
	return e.cause.Error()
}

// damagedRecord returns the error for a record that cannot be read.
func damagedRecord(d *store.DamagedError) *ForgedError { return &ForgedError{d.ID, d.Field, d} }

// Unwrap returns [ErrForged] and the cause, which may be [ErrMasterKey].
func (e *ForgedError) Unwrap() []error { return []error{ErrForged, e.cause} }

// fieldVersion is the name of the document version among the fields of a record.
const fieldVersion = "document_version"

// ForgedFields returns the closed set of [ForgedError.Field].
func ForgedFields() []string {
	names := append([]string{fieldSeal, fieldVersion}, store.DamagedFields()...)
	for i := range sealedFields {
		if !slices.Contains(names, sealedFields[i].name) {
			names = append(names, sealedFields[i].name)
		}
	}
	return names
}

var (
	errNotSealed = errors.New("it is missing, and the configuration has seal required")
	errOlder     = errors.New("it is an older record of the key than one that this gateway has seen")
	errUnsealed  = errors.New("it is missing, and this gateway has seen the key with a seal")
)

// verify returns a [ForgedError] if the record has a seal and is not as a gateway
// has written it.
func (k *Service) verify(r *store.Record) error {
	if len(r.Seal) == 0 {
		return nil
	}
	if field, err := k.ring.checkSeal(r); err != nil {
		return &ForgedError{r.ID, field, err}
	}
	return nil
}

// admitRecord is verify for a record of this store. It also refuses a record that is
// older than one that was seen, and one without a seal where it must have one.
func (k *Service) admitRecord(r *store.Record) error {
	if err := k.verify(r); err != nil {
		return err
	}
	switch sealed := len(r.Seal) > 0; {
	case sealed && !k.opt.Seen.raise(r.ID, documentVersion(r.Seal)):
		return &ForgedError{r.ID, fieldVersion, errOlder}
	case !sealed && k.opt.SealRequired:
		return &ForgedError{r.ID, fieldSeal, errNotSealed}
	case !sealed && k.opt.Seen.of(r.ID) > 0:
		return &ForgedError{r.ID, fieldSeal, errUnsealed}
	default:
		return nil
	}
}

// authentic returns the record if it is admitted, and otherwise a [ForgedError],
// which it reports. A record may have become old between its reading and now, so
// one that is refused is read again.
func (k *Service) authentic(ctx context.Context, r *store.Record) (*store.Record, error) {
	err := k.admitRecord(r)
	if err == nil {
		return r, nil
	}
	if r, err = k.get(ctx, r.ID); err != nil {
		return nil, err
	}
	if err = k.admitRecord(r); err != nil {
		k.reportForged(err)
		return nil, err
	}
	return r, nil
}

// get reads a record. One that cannot be read because it was damaged is a forged
// one: [ForgedError].
func (k *Service) get(ctx context.Context, id string) (*store.Record, error) {
	r, err := k.backend.Get(ctx, id)
	var damaged *store.DamagedError
	if errors.As(err, &damaged) {
		err = damagedRecord(damaged)
		k.reportForged(err)
	}
	return r, err
}

func (k *Service) reportForged(err error) {
	var forged *ForgedError
	if errors.As(err, &forged) {
		k.opt.OnForged(forged)
	}
}
