package caddymodule

import (
	"context"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// keyBuckets are the buckets that the requests of a key are charged to: one for
// each operation that it may call, and last the one for all of them, if there is
// a limit on that.
type keyBuckets struct {
	key        string
	operations []*auth.Operation
	charges    []ratelimit.Charge
	rates      []string
}

// bucketsOf returns the buckets of a key, with the limits that hold at now.
func (r *rules) bucketsOf(key *auth.Key, now time.Time) (b keyBuckets) {
	b.key = key.ID
	for _, operation := range r.table.Operations() {
		if slices.ContainsFunc(operation.Scopes, key.Scopes.Has) {
			b.operations = append(b.operations, operation)
			b.add(operation.Name, r.limits.Limit(operation.Name, key.Limits, now))
		}
	}
	if total, limited := r.limits.TotalLimit(key.Limits, now); limited {
		b.add(ratelimit.NameTotal, total)
	}
	return b
}

func (b *keyBuckets) add(bucket string, limit ratelimit.Limit) {
	b.charges = append(b.charges, ratelimit.NewCharge(bucket, limit, limit.Cost))
	b.rates = append(b.rates, limit.String())
}

// drop removes an operation.
func (b *keyBuckets) drop(name string) {
	at := slices.IndexFunc(b.operations, func(o *auth.Operation) bool { return o.Name == name })
	if at >= 0 {
		b.operations, b.charges, b.rates = slices.Delete(b.operations, at, at+1), slices.Delete(b.charges, at, at+1), slices.Delete(b.rates, at, at+1)
	}
}

// levels returns what is left of each bucket at now. It charges nothing.
func (b *keyBuckets) levels(ctx context.Context, backend store.Backend, now time.Time) ([]keyadmin.Limit, error) {
	states, err := backend.Levels(ctx, b.key, b.charges, now)
	if err != nil {
		return nil, err
	}
	limits := make([]keyadmin.Limit, len(states))
	for i := range states {
		limits[i] = viewLimit(&states[i], b.rates[i])
	}
	return limits, nil
}

func viewLimit(s *ratelimit.State, rate string) keyadmin.Limit {
	return keyadmin.Limit{Bucket: s.Bucket, Rate: rate, Limit: s.Limit, Remaining: s.Remaining, Reset: s.Reset}
}
