package settings

import (
	"strconv"

	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// Policy returns the options that must be the same on all gateways of a store,
// with their names in the configuration and with defaults.
func (r *Settings) Policy() store.Policy {
	p := store.Policy{
		"window":             r.Window.String(),
		"replay_floor_ahead": r.FloorAhead.String(),
		"lock_after":         strconv.Itoa(r.LockAfter),
	}
	if r.SealRequired {
		p["seal"] = sealRequired
	}
	if r.LockDuration > 0 {
		p["lock_duration"] = r.LockDuration.String()
	}
	for _, name := range []string{"ip", "timestamp", "nonce"} {
		if rule, err := parseLockCounts([]string{name}); err == nil && r.LockCounts&rule != 0 {
			p["lock_counts "+name] = "yes"
		}
	}
	if r.Limits.Default != (ratelimit.Limit{}) {
		p["limit "+ratelimit.NameDefault] = r.Limits.Default.String()
	}
	if r.Limits.Total != nil {
		p["limit "+ratelimit.NameTotal] = r.Limits.Total.String()
	}
	for name, limit := range r.Limits.Operations {
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
