package keyadmin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/keys"
)

// declaredFormat and declaredVersion begin a file of declared keys.
const (
	declaredFormat  = "card-gateway keys, without secrets"
	declaredVersion = 1
	maxDeclared     = 256 << 20 // bytes
)

// A declaration says of keys what operators set. It has no secrets, so it can be
// kept under version control.
type declaration struct {
	Format  string        `json:"format"`
	Version int           `json:"version"`
	Keys    []declaredKey `json:"keys"`
}

// A declaredKey has every field, so that a file means the same whatever a key has
// at present. What ends by itself, such as debug_until and locks, is not declared.
type declaredKey struct {
	ID              string                     `json:"id"`
	Tenant          string                     `json:"tenant"`
	Description     string                     `json:"description"`
	Scopes          []string                   `json:"scopes"`
	AllowedIPs      []string                   `json:"allowed_ips"`
	ExpiresAt       *time.Time                 `json:"expires_at"`
	Disabled        bool                       `json:"disabled"`
	Limits          map[string]json.RawMessage `json:"limits"`
	CustomerVariant *string                    `json:"customer_variant"`
}

func declare(v *keys.View) declaredKey {
	d := declaredKey{
		ID: v.ID, Tenant: v.Tenant, Description: v.Description, Scopes: v.Scopes, AllowedIPs: v.AllowedIPs,
		ExpiresAt: v.ExpiresAt, Disabled: v.Disabled, Limits: v.Limits, CustomerVariant: v.CustomerVariant,
	}
	if d.Limits == nil {
		d.Limits = map[string]json.RawMessage{}
	}
	return d
}

// declareAll returns the declaration of keys, sorted by id.
func declareAll(views []keys.View) declaration {
	d := declaration{Format: declaredFormat, Version: declaredVersion, Keys: make([]declaredKey, len(views))}
	for i := range views {
		d.Keys[i] = declare(&views[i])
	}
	slices.SortFunc(d.Keys, func(a, b declaredKey) int { return cmp.Compare(a.ID, b.ID) })
	return d
}

// readDeclaration reads a file strictly.
func readDeclaration(r io.Reader) (declaration, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxDeclared))
	if err != nil {
		return declaration{}, err
	}
	var d declaration
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return d, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return d, errors.New("more follows after the keys")
	}
	if d.Format != declaredFormat || d.Version != declaredVersion {
		return d, fmt.Errorf("it is not of the format %q, version %d, which card-keys export writes", declaredFormat, declaredVersion)
	}
	seen := make(map[string]bool)
	for i := range d.Keys {
		switch id := d.Keys[i].ID; {
		case id == "":
			return d, fmt.Errorf("key %d has no id", i+1)
		case seen[id]:
			return d, fmt.Errorf("key %s is in it twice", id)
		default:
			seen[id] = true
		}
	}
	return d, nil
}

// A difference is a field whose value is not the declared one.
type difference struct {
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}

// differencesTo returns the fields of a key that are not as declared, and the merge
// patch that makes them so.
func (d *declaredKey) differencesTo(present *declaredKey) ([]difference, map[string]any) {
	want, have := d.fields(), present.fields()
	var changes []difference
	patch := make(map[string]any)
	for _, name := range declaredFields {
		if bytes.Equal(want[name], have[name]) {
			continue
		}
		changes = append(changes, difference{Field: name, Old: have[name], New: want[name]})
		patch[name] = want[name]
	}
	if _, differ := patch["limits"]; differ {
		limits := make(map[string]any) // objects are merged: null removes
		for name := range present.Limits {
			limits[name] = nil
		}
		for name, limit := range d.Limits {
			limits[name] = limit
		}
		patch["limits"] = limits
	}
	return changes, patch
}

var declaredFields = []string{"tenant", "description", "scopes", "allowed_ips", "expires_at", "disabled", "limits", "customer_variant"}

// fields returns the JSON of each field in one spelling.
func (d *declaredKey) fields() map[string]json.RawMessage {
	one := *d
	if one.Limits == nil {
		one.Limits = map[string]json.RawMessage{}
	}
	if one.ExpiresAt != nil {
		utc := one.ExpiresAt.UTC()
		one.ExpiresAt = &utc
	}
	text, err := json.Marshal(one)
	all := make(map[string]json.RawMessage)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil // a limit that is no JSON cannot have been decoded
	}
	return all
}

func (c difference) String() string {
	return strings.Join([]string{c.Field, ": ", string(c.Old), " -> ", string(c.New)}, "")
}
