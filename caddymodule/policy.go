package caddymodule

import (
	"strconv"

	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store/redis"
)

// policy returns the options that must be the same on all gateways of a store,
// with their names in the configuration and with defaults.
func (r *rules) policy() redis.Policy {
	p := redis.Policy{
		"window":             r.window.String(),
		"replay_floor_ahead": r.floorAhead.String(),
		"lock_after":         strconv.Itoa(r.lockAfter),
	}
	if r.sealRequired {
		p["seal"] = sealRequired
	}
	if r.lockDuration > 0 {
		p["lock_duration"] = r.lockDuration.String()
	}
	for _, name := range []string{"ip", "timestamp", "nonce"} {
		if rule, err := parseLockCounts([]string{name}); err == nil && r.lockCounts&rule != 0 {
			p["lock_counts "+name] = "yes"
		}
	}
	if r.limits.Default != (ratelimit.Limit{}) {
		p["limit "+ratelimit.NameDefault] = r.limits.Default.String()
	}
	if r.limits.Total != nil {
		p["limit "+ratelimit.NameTotal] = r.limits.Total.String()
	}
	for name, limit := range r.limits.Operations {
		p["limit "+name] = limit.String()
	}
	for _, o := range r.operations { // the built-in ones are those of the version
		name := "operation " + o.Name
		if p[name] != "" {
			p[name] += ", "
		}
		p[name] += o.Method + " " + o.Pattern + " " + o.Scope
	}
	return p
}
