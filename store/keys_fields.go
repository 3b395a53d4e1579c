package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
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
	AllowedIPs []string `json:"allowed_ips,omitempty"`
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

const (
	maxTenant      = 64
	maxDescription = 500
	maxListEntries = 256
)

// check returns an [InvalidError] for the first field that is wrong.
func (k *Keys) checkFields(f *Fields) error {
	if err := checkTenant(f.Tenant); err != nil {
		return err
	}
	if err := checkText("description", f.Description, maxDescription); err != nil {
		return err
	}
	if len(f.Scopes) == 0 {
		return invalid("scopes", `at least one must be given, such as "cards:read"; "*" is all of them`)
	}
	if len(f.Scopes) > maxListEntries || len(f.AllowedIPs) > maxListEntries || len(f.Limits) > maxListEntries {
		return invalid("", "scopes, allowed_ips and limits hold at most %d entries each", maxListEntries)
	}
	if _, err := auth.ParseScopes(f.Scopes); err != nil {
		return invalid("scopes", "%v", err)
	}
	if k.opt.CheckScopes != nil {
		if err := k.opt.CheckScopes(f.Scopes); err != nil {
			return invalid("scopes", "%v", err)
		}
	}
	if f.AllowedIPs != nil {
		if len(f.AllowedIPs) == 0 {
			return invalid("allowed_ips", "an empty list would refuse every address; leave it out, or give null, to allow any")
		}
		if _, err := auth.ParseAllowedIPs(f.AllowedIPs); err != nil {
			return invalid("allowed_ips", "%v", err)
		}
	}
	if _, err := ratelimit.ParseOverrides(f.Limits); err != nil {
		return invalid("limits", "%v", err)
	}
	if k.opt.CheckLimits != nil {
		if err := k.opt.CheckLimits(f.Limits); err != nil {
			return invalid("limits", "%v", err)
		}
	}
	if err := checkVariant(f.CustomerVariant); err != nil {
		return invalid("customer_variant", "%v", err)
	}
	return nil
}

func checkTenant(tenant string) error {
	ok := tenant != "" && len(tenant) <= maxTenant && !strings.ContainsFunc(tenant, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && r != '.' && r != '_' && r != '-'
	})
	if !ok {
		return invalid("tenant", "want 1 to %d of A-Z a-z 0-9 . _ -", maxTenant)
	}
	return nil
}

func checkText(field, text string, most int) error {
	if len(text) > most {
		return invalid(field, "at most %d bytes, not %d", most, len(text))
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return invalid(field, "control characters and invalid UTF-8 are refused")
	}
	return nil
}

func checkVariant(variant string) error {
	switch variant {
	case "", "A", "B", "C":
		return nil
	}
	return errors.New(`want "A", "B" or "C"`)
}

// fieldsOf returns the changeable part of a record.
func fieldsOf(r *Record) Fields {
	return Fields{
		Tenant: r.Tenant, Description: r.Description, Scopes: r.Scopes, AllowedIPs: r.AllowedIPs, ExpiresAt: r.ExpiresAt,
		Disabled: r.Disabled, Limits: r.Limits, CustomerVariant: r.CustomerVariant, DebugUntil: r.DebugUntil,
	}
}

// store writes the changeable part of a record.
func (f *Fields) store(r *Record) {
	r.Tenant, r.Description, r.Scopes, r.AllowedIPs = f.Tenant, f.Description, f.Scopes, f.AllowedIPs
	r.ExpiresAt, r.DebugUntil = f.ExpiresAt.UTC(), f.DebugUntil.UTC()
	r.Disabled, r.Limits, r.CustomerVariant = f.Disabled, f.Limits, f.CustomerVariant
}

// changeable and fixed are the names that a patch may and may not hold.
var (
	changeable = []string{"tenant", "description", "scopes", "allowed_ips", "expires_at", "disabled", "limits", "customer_variant", "debug_until"}
	fixed      = []string{"id", "mode", "status", "imported", "failures", "lock", "secrets", "created_at", "updated_at", "revision"}
)

// patched returns the fields with a JSON merge patch (RFC 7396) applied: null
// sets a field to its default, objects are merged, anything else replaces.
func (f *Fields) patched(patch []byte) (Fields, error) {
	names, err := objectOf(patch)
	if err != nil {
		return Fields{}, err
	}
	for name := range names {
		switch {
		case slices.Contains(fixed, name):
			return Fields{}, invalid(name, "cannot be changed")
		case !slices.Contains(changeable, name):
			return Fields{}, invalid(name, "unknown field; these can be changed: %s", strings.Join(changeable, ", "))
		}
	}
	doc, err := jsonv2.Marshal(f)
	if err != nil {
		return Fields{}, fmt.Errorf("writing the key's fields: %w", err)
	}
	merged, err := mergePatch(doc, patch)
	if err != nil {
		return Fields{}, err
	}
	var out Fields
	if err := Decode(merged, &out); err != nil {
		return Fields{}, err
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

// ErrMalformed means that a request is not JSON of one reading.
var ErrMalformed = errors.New("malformed JSON")

// Decode reads JSON strictly: names in exactly their case and none of them
// twice, no unknown name, no second value. The error is [ErrMalformed],
// wrapped, or an [InvalidError] that names the field.
func Decode(doc []byte, into any) error {
	err := jsonv2.Unmarshal(doc, into, jsonv2.RejectUnknownMembers(true))
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
		return invalid(field, "unknown field")
	case semantic.GoType == timeType:
		return invalid(field, `want a time as in RFC 3339, such as "2030-01-31T00:00:00Z", or null`)
	case semantic.JSONKind != 0:
		return invalid(field, "a JSON %s does not fit here", kindName(semantic.JSONKind))
	default:
		return invalid(field, "does not fit here")
	}
}

var timeType = reflect.TypeFor[time.Time]()

func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{', '}':
		return "object"
	case '[', ']':
		return "array"
	default:
		return "value"
	}
}
