package ratelimit

import (
	"maps"
	"time"
)

// defaultLimit is the built-in limit of an operation that is not in the table.
var defaultLimit = perMinute(600)

// defaultLimits is the built-in table. A configured limit of the operation
// replaces its row; a configured default only tightens it. The reason of each
// row is in docs/setting-limits.md. A test compares the two tables.
var defaultLimits = map[string]Limit{
	"get_sensitive_card": burst(perMinute(30), 10),
	"set_card_pin":       burst(perMinute(10), 5),

	"issue_card":         burst(perMinute(60), 20),
	"replace_card":       burst(perMinute(60), 20),
	"create_customer":    burst(perMinute(60), 20),
	"submit_applicant":   burst(perMinute(60), 20),
	"resubmit_applicant": burst(perMinute(30), 10),
	"upload_documents":   burst(perMinute(30), 10),

	"update_customer":    perMinute(120),
	"activate_card":      perMinute(120),
	"cancel_card":        perMinute(120),
	"update_card_limits": perMinute(120),
	"top_up_card":        burst(perMinute(120), 30),
	"webhooks":           perMinute(60),

	"freeze_card":   perMinute(600),
	"unfreeze_card": perMinute(300),

	"list_customers":             perMinute(120),
	"list_cards":                 perMinute(120),
	"list_top_ups":               perMinute(120),
	"list_transactions":          perMinute(120),
	"list_customer_transactions": perMinute(240),
	"list_card_transactions":     perMinute(240),

	"other": perMinute(120),
}

func perMinute(n int64) Limit { return Limit{Count: n, Period: time.Minute, Burst: n} }

func burst(l Limit, n int64) Limit {
	l.Burst = n
	return l
}

// DefaultLimits returns a copy of the built-in limits by operation. The entry
// "default" is the limit of every operation that is not in the table.
func DefaultLimits() map[string]Limit {
	all := maps.Clone(defaultLimits)
	all[NameDefault] = defaultLimit
	return all
}

func builtIn(operation string) Limit {
	if l, found := defaultLimits[operation]; found {
		return l
	}
	return defaultLimit
}
