package caddymodule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// provisionPolicy compiles the table of operations, the limits and what counts
// towards the lock.
func (a *App) provisionPolicy() error {
	table, err := auth.NewTable(operationDefs(a.Operations))
	if err != nil {
		return fmt.Errorf("card_gateway: operations: %w", err)
	}
	a.table = table
	if a.policy, err = newPolicy(a.Limits, table); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	if a.counts, err = parseLockCounts(a.LockCounts); err != nil {
		return fmt.Errorf("card_gateway: %w", err)
	}
	return nil
}

func newPolicy(limits map[string]string, table *auth.Table) (*ratelimit.Policy, error) {
	parsed := make(map[string]ratelimit.Limit, len(limits))
	for name, text := range limits {
		limit, err := ratelimit.ParseLimit(text)
		if err != nil {
			return nil, fmt.Errorf("limit %s: %w", name, err)
		}
		if !limitName(name, table) {
			return nil, unknownLimit(name, table)
		}
		parsed[name] = limit
	}
	return ratelimit.NewPolicy(parsed)
}

// limitName reports whether limits may be given under the name.
func limitName(name string, table *auth.Table) bool {
	return name == ratelimit.NameDefault || name == ratelimit.NameTotal || table.ByName(name) != nil
}

func unknownLimit(name string, table *auth.Table) error {
	return fmt.Errorf("limit %s: no operation has this name; use default, total or one of %s",
		name, strings.Join(operationNames(table), ", "))
}

func operationNames(table *auth.Table) []string {
	names := make([]string, 0, len(table.Operations()))
	for _, operation := range table.Operations() {
		names = append(names, operation.Name)
	}
	slices.Sort(names)
	return names
}

// checkLimits refuses limits of a key that name no operation.
func (a *App) checkLimits(limits map[string]json.RawMessage) error {
	for name := range limits {
		if !limitName(name, a.table) {
			return unknownLimit(name, a.table)
		}
	}
	return nil
}

// checkScopes refuses scopes of a key that no operation asks for: a mistyped
// one would be a key that works nowhere.
func (a *App) checkScopes(scopes []string) error {
	known := a.knownScopes()
	for _, scope := range scopes {
		resource, action, _ := strings.Cut(scope, ":")
		hasPrefix := func(s string) bool { return strings.HasPrefix(s, resource+":") }
		if scope == auth.ScopeAll || slices.Contains(known, scope) || action == "*" && slices.ContainsFunc(known, hasPrefix) {
			continue
		}
		return fmt.Errorf("no operation asks for the scope %q; known are %s, and wildcards such as cards:* and *", scope, strings.Join(known, " "))
	}
	return nil
}

// knownScopes returns those of the published interface and of the configured
// operations.
func (a *App) knownScopes() []string {
	known := auth.KnownScopes()
	for _, operation := range a.table.Operations() {
		known = append(known, operation.Scope)
	}
	known = slices.DeleteFunc(known, func(scope string) bool { return scope == auth.ScopeAll })
	slices.Sort(known)
	return slices.Compact(known)
}

func parseLockCounts(names []string) (auth.Rules, error) {
	var rules auth.Rules
	for _, name := range names {
		switch name {
		case "ip":
			rules |= auth.RuleIP
		case "timestamp":
			rules |= auth.RuleTimestamp
		case "nonce":
			rules |= auth.RuleNonce
		default:
			return 0, fmt.Errorf("lock_counts %s: use ip, timestamp or nonce", name)
		}
	}
	return rules, nil
}
