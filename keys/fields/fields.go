// Package fields decides which values the fields of a key may have.
//
// [Decode] reads them from JSON, [Check] checks all of them, and [Patch] changes them by
// a JSON merge patch.
//
// Begin with [Check].
package fields

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// InvalidError means that a field of a request to make or change a key is wrong.
// Its text describes the expected value.
type InvalidError struct {
	Field  string // as written in JSON; empty for the whole
	Reason string // a clause that follows the field's name
}

// Error returns the field's name and what is wrong with it.
func (e *InvalidError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

// Invalid returns an [InvalidError].
func Invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

const (
	tenantCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

	maxTenant      = 64
	maxDescription = 500
	maxListEntries = 256
)

// Bounds are what [Check] compares fields with.
type Bounds struct {
	// Scopes and Limits, when set, check scopes and limits against the configuration,
	// such as names of operations.
	Scopes func([]string) error
	Limits func(map[string]json.RawMessage) error
	// Now is the time, and DebugUntil the end of debugging that is stored already.
	Now, DebugUntil time.Time
}

// Check brings the fields into the form in which they are stored, or
// returns an [InvalidError] for the first one that is wrong.
func Check(f *store.Fields, bounds Bounds) error {
	if err := checkTenant(f.Tenant); err != nil {
		return err
	}
	if err := CheckText("description", f.Description, maxDescription); err != nil {
		return err
	}
	if len(f.Scopes) > maxListEntries || len(f.AllowedIPs) > maxListEntries || len(f.Limits) > maxListEntries {
		return Invalid("", "scopes, allowed_ips and limits hold at most %d entries each", maxListEntries)
	}
	for _, checked := range []struct {
		field string
		err   error
	}{
		{"scopes", checkScopes(f.Scopes, bounds.Scopes)}, {"allowed_ips", checkAllowedIPs(f.AllowedIPs)},
		{"limits", checkLimits(f.Limits, bounds.Limits)}, {"customer_variant", CheckVariant(f.CustomerVariant)},
	} {
		if checked.err != nil {
			return Invalid(checked.field, "%v", checked.err)
		}
	}
	f.ExpiresAt, f.DebugUntil = f.ExpiresAt.UTC(), f.DebugUntil.UTC()
	// One that was stored before stays, and counts as [DebugUntil] says.
	if !f.DebugUntil.Equal(bounds.DebugUntil) && f.DebugUntil.After(bounds.Now.Add(maxDebug)) {
		return Invalid("debug_until", "at most 24 hours ahead")
	}
	return nil
}

// maxDebug is how far ahead the end of debugging may be: nobody remembers to
// take it back.
const maxDebug = 24 * time.Hour

// DebugUntil returns until when the key's refusals explain themselves: at most
// 24 hours after its last change. An earlier version stored any time.
func DebugUntil(r *store.Record) time.Time {
	if last := r.UpdatedAt.Add(maxDebug); r.DebugUntil.After(last) {
		return last
	}
	return r.DebugUntil
}

func checkScopes(scopes []string, configured func([]string) error) error {
	if len(scopes) == 0 {
		return errors.New(`at least one must be given, such as "cards:read"; "*" is all of them`)
	}
	if _, err := auth.ParseScopes(scopes); err != nil || configured == nil {
		return err
	}
	return configured(scopes)
}

func checkAllowedIPs(list []string) error {
	if list == nil {
		return nil
	}
	if len(list) == 0 {
		return errors.New("an empty list would refuse every address; leave it out, or give null, to allow any")
	}
	_, err := auth.ParseAllowedIPs(list)
	return err
}

func checkLimits(limits map[string]json.RawMessage, configured func(map[string]json.RawMessage) error) error {
	overrides, err := ratelimit.ParseOverrides(limits)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if until := overrides[name].Until; !until.IsZero() {
			if err := checkTime(until); err != nil {
				return fmt.Errorf("%q: until: %w", name, err)
			}
		}
	}
	if configured == nil {
		return nil
	}
	return configured(limits)
}

func checkTenant(tenant string) error {
	if tenant == "" || len(tenant) > maxTenant || strings.Trim(tenant, tenantCharacters) != "" {
		return Invalid("tenant", "want 1 to %d of A-Z a-z 0-9 . _ -", maxTenant)
	}
	return nil
}

// CheckText returns an [InvalidError] for a text of more than most bytes, or with
// characters that no field may have.
func CheckText(field, text string, most int) error {
	if len(text) > most {
		return Invalid(field, "at most %d bytes, not %d", most, len(text))
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return Invalid(field, "control characters and invalid UTF-8 are refused")
	}
	return nil
}

// CheckVariant returns an error for a text that names no customer variant; empty is none.
func CheckVariant(variant string) error {
	switch variant {
	case "", "A", "B", "C":
		return nil
	}
	return errors.New(`want "A", "B" or "C"`)
}

// The years of the times that a key may have, in UTC. Earlier years are refused
// because tools write the year 1, 1900 or 1970 for an unset time. RFC 3339 has no
// year after 9999.
const (
	firstYear = 2000
	lastYear  = 9999
)

var (
	errNoTime    = errors.New(`want a time as in RFC 3339, such as "2030-01-31T00:00:00Z", or null`)
	errTimeRange = fmt.Errorf("want a time from %d to %d; for none, give null or leave it out", firstYear, lastYear)
)

// checkTime returns an error for a time that a key may not have.
func checkTime(t time.Time) error {
	if year := t.UTC().Year(); year < firstYear || year > lastYear {
		return errTimeRange
	}
	return nil
}

// strictTimes is the option that calls [checkTime] for every time in JSON.
var strictTimes = jsonv2.WithUnmarshalers(jsonv2.UnmarshalFunc(func(doc []byte, t *time.Time) error {
	switch {
	case doc[0] == 'n':
		*t = time.Time{}
		return nil
	case doc[0] != '"' || t.UnmarshalJSON(doc) != nil:
		return errNoTime
	default:
		return checkTime(*t)
	}
}))

// changeable and fixed are the names that a patch may and may not hold.
var (
	changeable = []string{"tenant", "description", "scopes", "allowed_ips", "expires_at", "disabled", "limits", "customer_variant", "debug_until"}
	fixed      = []string{"id", "mode", "status", "imported", "failures", "lock", "secrets", "retired_secrets", "created_at", "updated_at", "revision", "seal"}
)

// Patch returns the fields with a JSON merge patch (RFC 7396) applied: null
// sets a field to its default, objects are merged, anything else replaces.
func Patch(f *store.Fields, patch []byte) (store.Fields, error) {
	names, err := objectOf(patch)
	if err != nil {
		return store.Fields{}, err
	}
	for name := range names {
		switch {
		case slices.Contains(fixed, name):
			return store.Fields{}, Invalid(name, "cannot be changed")
		case !slices.Contains(changeable, name):
			return store.Fields{}, Invalid(name, "unknown field; these can be changed: %s", strings.Join(changeable, ", "))
		}
	}
	doc, err := jsonv2.Marshal(f, jsonv2.FormatNilSliceAsNull(true))
	if err != nil {
		return store.Fields{}, fmt.Errorf("writing the key's fields: %w", err)
	}
	merged, err := mergePatch(doc, patch)
	if err != nil {
		return store.Fields{}, err
	}
	var out store.Fields
	if err := Decode(merged, &out); err != nil {
		return store.Fields{}, err
	}
	return out, nil
}

// mergePatch is the algorithm of RFC 7396, section 2.
func mergePatch(target, patch jsontext.Value) (jsontext.Value, error) {
	if patch.Kind() != '{' {
		return patch, nil
	}
	changes, err := objectOf(patch)
	if err != nil {
		return nil, err
	}
	merged := make(map[string]jsontext.Value)
	if len(target) > 0 && target.Kind() == '{' {
		if merged, err = objectOf(target); err != nil {
			return nil, err
		}
	}
	for name, value := range changes {
		if value.Kind() == 'n' {
			delete(merged, name)
			continue
		}
		if merged[name], err = mergePatch(merged[name], value); err != nil {
			return nil, err
		}
	}
	return jsonv2.Marshal(merged, jsonv2.Deterministic(true))
}

func objectOf(doc []byte) (map[string]jsontext.Value, error) {
	if jsontext.Value(doc).Kind() != '{' {
		return nil, fmt.Errorf("%w: want a JSON object", ErrMalformed)
	}
	var object map[string]jsontext.Value
	if err := Decode(doc, &object); err != nil {
		return nil, err
	}
	return object, nil
}

// ErrMalformed means that a request is not valid JSON, or has a name twice.
var ErrMalformed = errors.New("malformed JSON")

// Decode reads JSON strictly: names in exactly their case and none of them
// twice, no unknown name, no second value, no time outside of the years 2000 to
// 9999. The error is [ErrMalformed], wrapped, or an [InvalidError] that names
// the field.
func Decode(doc []byte, into any) error {
	err := jsonv2.Unmarshal(doc, into, jsonv2.RejectUnknownMembers(true), strictTimes)
	if err == nil {
		return nil
	}
	var semantic *jsonv2.SemanticError
	if !errors.As(err, &semantic) {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	field := strings.ReplaceAll(strings.TrimPrefix(string(semantic.JSONPointer), "/"), "/", ".")
	switch {
	case errors.Is(err, jsonv2.ErrUnknownName):
		return Invalid(field, "unknown field")
	case errors.Is(err, errNoTime), errors.Is(err, errTimeRange):
		return Invalid(field, "%v", semantic.Err)
	case semantic.JSONKind != 0:
		return Invalid(field, "a JSON %s does not fit here", cmp.Or(kindNames[semantic.JSONKind], "value"))
	default:
		return Invalid(field, "does not fit here")
	}
}

var kindNames = map[jsontext.Kind]string{'n': "null", 't': "boolean", 'f': "boolean", '"': "string", '0': "number", '{': "object", '}': "object", '[': "array", ']': "array"}
