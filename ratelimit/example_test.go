package ratelimit_test

import (
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// A limit becomes a charge. The charge takes the time and the level of the
// bucket, and decides. The caller keeps the level; the package has no clock.
func Example() {
	limit, err := ratelimit.ParseLimit("60/1m burst 2")
	if err != nil {
		fmt.Println(err)
		return
	}
	charge := ratelimit.NewCharge("issue_card", limit, limit.Cost)
	start := time.Unix(1750000000, 0)
	var level ratelimit.Level // of an untouched bucket
	for _, after := range []time.Duration{0, 0, 400 * time.Millisecond, time.Second} {
		now := start.Add(after).UnixMicro()
		next, fits := charge.Decide(level, now)
		level = next
		state := charge.State(level, now, fits)
		fmt.Printf("after %s: fits %t, %d of %d left, come back in %s\n", after, fits, state.Remaining, state.Limit, state.Retry)
	}
	// Output:
	// after 0s: fits true, 1 of 2 left, come back in 0s
	// after 0s: fits true, 0 of 2 left, come back in 0s
	// after 400ms: fits false, 0 of 2 left, come back in 600ms
	// after 1s: fits true, 0 of 2 left, come back in 0s
}

// A policy returns the buckets that a request is charged to: that of its
// operation, and "total" if it is configured.
func ExamplePolicy() {
	policy, err := ratelimit.NewPolicy(map[string]ratelimit.Limit{
		"issue_card": {Count: 10, Period: time.Minute, Burst: 10},
		"total":      {Count: 600, Period: time.Minute, Burst: 100},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(1750000000, 0)
	charges := policy.AppendCharges(nil, "issue_card", nil, now)
	var states []ratelimit.State
	for _, charge := range charges {
		level, fits := charge.Decide(ratelimit.Level{}, now.UnixMicro())
		states = append(states, charge.State(level, now.UnixMicro(), fits))
	}
	fmt.Println(string(ratelimit.AppendRateLimitPolicy(nil, charges)))
	fmt.Println(string(ratelimit.AppendRateLimit(nil, states)))
	fmt.Println("tightest:", states[ratelimit.Tightest(states)].Bucket)
	// Output:
	// "issue_card";q=10;w=60, "total";q=100;w=10
	// "issue_card";r=9;t=6, "total";r=99;t=1
	// tightest: issue_card
}
