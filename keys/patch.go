package keys

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/card-gateway/card-gateway/store"
)

// changeable and fixed are the names that a patch may and may not hold.
var (
	changeable = []string{"tenant", "description", "scopes", "allowed_ips", "expires_at", "disabled", "limits", "customer_variant", "debug_until"}
	fixed      = []string{"id", "mode", "status", "imported", "failures", "lock", "secrets", "retired_secrets", "created_at", "updated_at", "revision", "seal"}
)

// patched returns the fields with a JSON merge patch (RFC 7396) applied: null
// sets a field to its default, objects are merged, anything else replaces.
func patched(f *store.Fields, patch []byte) (store.Fields, error) {
	names, err := objectOf(patch)
	if err != nil {
		return store.Fields{}, err
	}
	for name := range names {
		switch {
		case slices.Contains(fixed, name):
			return store.Fields{}, invalid(name, "cannot be changed")
		case !slices.Contains(changeable, name):
			return store.Fields{}, invalid(name, "unknown field; these can be changed: %s", strings.Join(changeable, ", "))
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
		return invalid(field, "unknown field")
	case errors.Is(err, errNoTime), errors.Is(err, errTimeRange):
		return invalid(field, "%v", semantic.Err)
	case semantic.JSONKind != 0:
		return invalid(field, "a JSON %s does not fit here", kindName(semantic.JSONKind))
	default:
		return invalid(field, "does not fit here")
	}
}

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
