package gate

import (
	"context"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// Buckets are the buckets that the requests of a key are charged to: one for each
// operation that it may call, and last the one for all of them, if there is a limit
// on that.
type Buckets struct {
	Operations []*auth.Operation
	Rates      []string // of each bucket, as an operator writes it: "60/1m burst 20"

	key     string
	charges []ratelimit.Charge
}

// BucketsOf returns the buckets of a key, with the limits that hold at now.
func BucketsOf(table *auth.Table, limits *ratelimit.Policy, key *auth.Key, now time.Time) (b Buckets) {
	b.key = key.ID
	for _, operation := range table.Operations() {
		if slices.ContainsFunc(operation.Scopes, key.Scopes.Has) {
			b.Operations = append(b.Operations, operation)
			b.add(operation.Name, limits.Limit(operation.Name, key.Limits, now))
		}
	}
	if total, limited := limits.TotalLimit(key.Limits, now); limited {
		b.add(ratelimit.NameTotal, total)
	}
	return b
}

func (b *Buckets) add(bucket string, limit ratelimit.Limit) {
	b.charges = append(b.charges, ratelimit.NewCharge(bucket, limit, limit.Cost))
	b.Rates = append(b.Rates, limit.String())
}

// Levels returns what is left of each bucket at now. It charges nothing. The errors
// are those of the backend.
func (b *Buckets) Levels(ctx context.Context, backend store.Backend, now time.Time) ([]ratelimit.State, error) {
	return backend.Levels(ctx, b.key, b.charges, now)
}
