package ratelimit

import (
	"errors"
	"fmt"
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
