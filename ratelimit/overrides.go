package ratelimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The names in a list of limits that are not operations.
const (
	NameDefault = "default" // every operation that has no limit of its own
	NameTotal   = "total"   // all operations of a key together
)

// An Override is a limit that one key has instead of the configured one.
type Override struct {
	Limit Limit
	Until time.Time // the moment at which it ends; zero: never
}

// Overrides are the limits of one key by operation, or "default" or "total".
// They are read-only once made. The nil map overrides nothing.
type Overrides map[string]Override

// ParseOverrides parses the `limits` of a key's record. Each value is a limit
// as text, or an object {"limit":"60/1m","until":"2026-11-28T00:00:00Z"}
// without other members. The caller must check that operations of these names
// exist. An error names the entry.
func ParseOverrides(limits map[string]json.RawMessage) (Overrides, error) {
	if len(limits) == 0 {
		return nil, nil
	}
	names := make([]string, 0, len(limits))
	for name := range limits {
		names = append(names, name)
	}
	slices.Sort(names) // so that of several mistakes the same one is always reported
	all := make(Overrides, len(limits))
	for _, name := range names {
		o, err := parseOverride(limits[name])
		if err == nil && name == NameTotal && o.Limit.Cost != 0 {
			err = errTotalCost
		}
		if err == nil && name == "" {
			err = errors.New(`expected the name of an operation, "default" or "total"`)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		all[name] = o
	}
	return all, nil
}

var errTotalCost = errors.New("total has no cost of its own; each request takes the cost of its operation")

func parseOverride(raw json.RawMessage) (Override, error) {
	var text string
	if len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return Override{}, fmt.Errorf("not a JSON string: %w", err)
		}
		l, err := ParseLimit(text)
		return Override{Limit: l}, err
	}
	// A map, because a struct would match names without regard to case.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return Override{}, fmt.Errorf(`found %.40s; expected a limit such as "60/1m burst 10", or {"limit":"…","until":"…"}`, raw)
	}
	for name := range members {
		if name != "limit" && name != "until" {
			return Override{}, fmt.Errorf(`unknown member %q; expected "limit" and "until"`, name)
		}
	}
	var o Override
	if !isString(members["limit"], &text) {
		return Override{}, errors.New(`"limit" is missing or not a string`)
	}
	var err error
	if o.Limit, err = ParseLimit(text); err != nil {
		return Override{}, err
	}
	raw, found := members["until"]
	if !found {
		return o, nil
	}
	if !isString(raw, &text) {
		return Override{}, errors.New(`"until" is not a string`)
	}
	if o.Until, err = time.Parse(time.RFC3339, text); err != nil {
		return Override{}, fmt.Errorf(`"until" is %q; expected RFC 3339 such as 2026-11-28T00:00:00Z`, text)
	}
	if o.Until.IsZero() {
		return Override{}, fmt.Errorf(`"until" is %q, which is the zero time; leave it out for an override without end`, text)
	}
	return o, nil
}

func isString(raw json.RawMessage, text *string) bool {
	return len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, text) == nil
}

// get returns the limit of the override of the name that is in force at now, or
// false.
func (o Overrides) get(name string, now time.Time) (Limit, bool) {
	if len(o) == 0 {
		return Limit{}, false
	}
	v, found := o[name]
	if !found || !v.Until.IsZero() && !now.Before(v.Until) {
		return Limit{}, false
	}
	return v.Limit, true
}
