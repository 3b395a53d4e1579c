package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ScopeAll is the scope that includes every other scope. Only a key with it may
// use the operation "other".
const ScopeAll = "*"

// ScopeSensitive is the scope that cards:* does not include.
const ScopeSensitive = "cards:sensitive"

// KnownScopes returns the scopes of the operations of the published interface.
// Configured operations may use further ones.
func KnownScopes() []string {
	return []string{
		"customers:read", "customers:write", "cards:read", "cards:write", ScopeSensitive,
		"funding:read", "funding:write", "transactions:read", "products:read",
		"documents:write", "webhooks:read", "webhooks:write",
	}
}

// Scopes is the set of scopes that a key holds (rule 12). The zero value holds
// none. It is immutable.
type Scopes struct {
	list []string
	text string
}

// ParseScopes returns the set of a key's scopes: "resource:action",
// "resource:*" for all actions of a resource except cards:sensitive, or "*" for
// everything. The order is kept and duplicates are dropped. A malformed scope
// is an error. So is an empty list, because scopes must be given explicitly.
func ParseScopes(list []string) (Scopes, error) {
	if len(list) == 0 {
		return Scopes{}, errors.New("no scopes given: name at least one, such as cards:read, or * for all")
	}
	var s Scopes
	for _, scope := range list {
		resource, action, ok := strings.Cut(scope, ":")
		wellFormed := ok && isScopeName(resource) && (action == "*" || isScopeName(action))
		if scope != ScopeAll && !wellFormed {
			return Scopes{}, fmt.Errorf("bad scope %q: write resource:action in lower case, such as cards:read, or cards:*, or *", scope)
		}
		if !slices.Contains(s.list, scope) {
			s.list = append(s.list, scope)
		}
	}
	s.text = strings.Join(s.list, " ")
	return s, nil
}

// isScopeName reports whether s is [a-z][a-z0-9_-]*.
func isScopeName(s string) bool { return isName(s, lowerLetters, lowerLetters+digits+"_-") }

// isPlainScope reports whether s is resource:action without a wildcard.
func isPlainScope(s string) bool {
	resource, action, ok := strings.Cut(s, ":")
	return ok && isScopeName(resource) && isScopeName(action)
}

// Has reports whether the set includes the scope that an operation needs. Only
// "*" includes the scope "*". Only "cards:sensitive" and "*" include
// cards:sensitive.
func (s Scopes) Has(scope string) bool {
	for _, held := range s.list {
		if held == ScopeAll || held == scope {
			return true
		}
		resource, ok := strings.CutSuffix(held, "*")
		if ok && strings.HasPrefix(scope, resource) && scope != ScopeSensitive {
			return true
		}
	}
	return false
}

// String returns the scopes separated by spaces.
func (s Scopes) String() string { return s.text }
