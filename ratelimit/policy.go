package ratelimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Policy is the configured limits of a site. It is read-only once in use.
type Policy struct {
	// Default is the limit of every operation that has none in Operations. An
	// operation with a row of its own in [DefaultLimits] keeps that row where it
	// is the tighter of the two; see [Policy.Limit]. If Default is zero, the
	// whole built-in table is used.
	Default Limit
	// Total, if set, is the limit of all operations of one key together.
	Total *Limit
	// Operations holds limits by operation.
	Operations map[string]Limit
}

// NewPolicy returns a policy of limits by name: an operation, "default" or
// "total". The error is that of [Policy.Check].
func NewPolicy(limits map[string]Limit) (*Policy, error) {
	p := &Policy{Operations: make(map[string]Limit, len(limits))}
	for name, l := range limits {
		switch name {
		case NameDefault:
			p.Default = l
		case NameTotal:
			p.Total = &l
		default:
			p.Operations[name] = l
		}
	}
	return p, p.Check()
}

// Check returns an error for a limit out of bounds, for a cost on "total", and
// for an operation that costs more than the burst of "total".
func (p *Policy) Check() error {
	if p.Default != (Limit{}) {
		if err := p.Default.check(); err != nil {
			return fmt.Errorf("limit default: %w", err)
		}
	}
	if p.Total != nil {
		if p.Total.Cost != 0 {
			return fmt.Errorf("limit total: %w", errTotalCost)
		}
		if err := errors.Join(p.Total.check(), p.fitsTotal(NameDefault, p.Default)); err != nil {
			return fmt.Errorf("limit total: %w", err)
		}
	}
	for name, l := range p.Operations {
		if err := errors.Join(l.check(), p.fitsTotal(name, l)); err != nil {
			return fmt.Errorf("limit %s: %w", name, err)
		}
	}
	return nil
}

func (p *Policy) fitsTotal(name string, l Limit) error {
	if p.Total == nil || l.Cost <= p.Total.Burst {
		return nil
	}
	return fmt.Errorf("a cost of %d (%s) never fits the burst of total, %d", l.Cost, name, p.Total.Burst)
}

// Limit returns the limit of one operation for a key with the overrides that
// are in force at now. It is the first that exists of: the key's for the
// operation, the configured one for the operation, the key's default, and the
// tighter of the configured default and the operation's row in the built-in
// table. An operation without a row has the configured default, or without one
// the built-in default. Its cost is that of one request; 0 stands for 1.
//
// The tighter of two limits is the one with the lower rate, and at the same
// rate the one with the smaller burst. Both are compared in requests: divided
// by the cost of the limit. It holds with its cost, and with its burst, but a
// configured default with no more burst than the row.
func (p *Policy) Limit(operation string, o Overrides, now time.Time) Limit {
	configured, special := p.Operations[operation]
	if !special {
		configured = p.withoutLine(operation)
	}
	limit, found := o.get(operation, now)
	if !found && !special {
		limit, found = o.get(NameDefault, now)
	}
	if !found {
		limit = configured
	}
	if limit.Cost == 0 {
		limit.Cost = configured.Cost
	}
	return limit
}

// withoutLine returns the limit of an operation that is not in Operations, for
// a key without overrides.
func (p *Policy) withoutLine(operation string) Limit {
	if p.Default.Count == 0 {
		return builtIn(operation)
	}
	row, found := defaultLimits[operation]
	switch limit := p.Default; {
	case found && row.tighter(limit):
		return row
	case found:
		limit.Burst = min(limit.Burst, row.Burst*max(limit.Cost, 1)) // a row has no cost
		return limit
	default:
		return limit
	}
}

// TotalLimit returns the limit of all operations together for a key with the
// overrides that are in force at now, or false when there is none.
func (p *Policy) TotalLimit(o Overrides, now time.Time) (Limit, bool) {
	if total, found := o.get(NameTotal, now); found {
		return total, true
	}
	if p.Total != nil {
		return *p.Total, true
	}
	return Limit{}, false
}

// AppendCharges appends the charges of one request of the operation to dst and
// returns the extended slice. It allocates nothing when dst has room for two
// more. The overrides are those that are in force at now.
//
// The first charge is for the bucket with the operation's name, by
// [Policy.Limit]. The second charge is for the bucket "total", if there is a
// [Policy.TotalLimit]. Each charge is the cost of the operation.
func (p *Policy) AppendCharges(dst []Charge, operation string, o Overrides, now time.Time) []Charge {
	limit := p.Limit(operation, o, now)
	dst = append(dst, NewCharge(operation, limit, limit.Cost))
	if total, found := p.TotalLimit(o, now); found {
		dst = append(dst, NewCharge(NameTotal, total, limit.Cost))
	}
	return dst
}

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
	all := make(Overrides, len(limits))
	for _, name := range slices.Sorted(maps.Keys(limits)) { // so that of several mistakes the same one is always reported
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
