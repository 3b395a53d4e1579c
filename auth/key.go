package auth

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// A Key is an API key as the judge sees it: the record of a client with its
// secrets opened. It is immutable and shared between requests.
type Key struct {
	ID       string
	Revision string // of the record it was made from; new with every change
	Tenant   string
	Scopes   Scopes
	// AllowedIPs is the whitelist of rule 6; nil allows every address.
	AllowedIPs []netip.Prefix
	ExpiresAt  time.Time // rule 4; zero: never
	Disabled   bool      // rule 3, by an operator
	Lock       *Lock     // rule 3, after the lock of rule 5 was announced
	// StampedAfter: requests with a timestamp up to it fail rule 7; zero: no
	// request does. Another store may have accepted their nonces.
	StampedAfter time.Time
	Limits       ratelimit.Overrides
	// Secrets holds the one or two live secrets, the newest first.
	Secrets []*Secret
	// Retired holds up to two secrets that have ended. They verify nothing,
	// also when their end is still ahead; see [Judgement.Retired].
	Retired []*Secret
	// DebugUntil is the time until which refusals of a live key explain
	// themselves in the answer; zero: they do not.
	DebugUntil time.Time
	// CustomerVariant is "A", "B", "C" or empty.
	CustomerVariant string
}

// A Lock is in the record of a key that was locked because of too many
// consecutive failures.
type Lock struct {
	At       time.Time `json:"at"`
	Until    time.Time `json:"until,omitzero"` // zero: until an operator unlocks it
	Failures int       `json:"failures"`       // consecutive failures that led to it
}

// Holds reports whether the lock is in force at now.
func (l *Lock) Holds(now time.Time) bool {
	return l != nil && (l.Until.IsZero() || now.Before(l.Until))
}

// ScopeAll is the scope that includes every other scope. Only a key with it may
// use the operation "other".
const ScopeAll = "*"

// ScopeNone is the scope of operations that every key may use, whatever its
// scopes. It is not a scope that a key or a configured operation can have.
const ScopeNone = "none"

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

// Has reports whether the set includes the scope that an operation needs. Every
// set includes [ScopeNone]. Only "*" includes the scope "*". Only
// "cards:sensitive" and "*" include cards:sensitive.
func (s Scopes) Has(scope string) bool {
	if scope == ScopeNone {
		return true
	}
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

// ParseAllowedIPs returns the networks of a key's whitelist (rule 6). An entry
// is an address or a CIDR network of IPv4 or IPv6, without leading zeros, zones
// or other forms that parsers read differently. An IPv4-mapped IPv6 entry
// becomes the IPv4 network. Prefix.String returns the canonical form of an
// entry. Duplicates are dropped.
//
// For a nil list it returns nil, which allows every address. An empty list is
// an error, because it could mean "nobody" as well as "everybody". A network
// whose address has bits beyond its mask is an error that shows the masked
// network.
func ParseAllowedIPs(list []string) ([]netip.Prefix, error) {
	if list == nil {
		return nil, nil
	}
	if len(list) == 0 {
		return nil, errors.New("the list of allowed addresses is empty: name at least one, or leave the list out to allow every address")
	}
	prefixes := make([]netip.Prefix, 0, len(list))
	for _, entry := range list {
		p, err := parseAllowedIP(entry)
		if err != nil {
			return nil, fmt.Errorf("bad allowed address %q: %w", entry, err)
		}
		if !slices.Contains(prefixes, p) {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes, nil
}

func parseAllowedIP(entry string) (netip.Prefix, error) {
	host, mask, hasMask := strings.Cut(entry, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}, errors.New("write an IPv4 or IPv6 address or network, such as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/48")
	}
	if addr.Zone() != "" {
		return netip.Prefix{}, errors.New("leave out the zone, it means nothing to another host")
	}
	bits := addr.BitLen()
	if hasMask {
		if bits, err = parseMask(mask, addr.BitLen()); err != nil {
			return netip.Prefix{}, err
		}
	}
	if addr.Is4In6() {
		if bits < 96 {
			return netip.Prefix{}, errors.New("the mask of an IPv4-mapped network must be /96 to /128; write the IPv4 network instead")
		}
		addr, bits = addr.Unmap(), bits-96
	}
	p := netip.PrefixFrom(addr, bits)
	if p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("the address has bits beyond its mask; the network is %s", p.Masked())
	}
	return p, nil
}

// parseMask returns the length of a mask in bits, from 0 to most. The text must
// be decimal digits without leading zeros.
func parseMask(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || strconv.Itoa(n) != s || n < 0 || n > most {
		return 0, fmt.Errorf("the mask must be a number from 0 to %d", most)
	}
	return n, nil
}

// allowsClient reports whether the address is on the whitelist, or the list is
// nil. The zero address, of an unknown client, is on no list.
func allowsClient(list []netip.Prefix, client netip.Addr) bool {
	if list == nil {
		return true
	}
	client = client.Unmap().WithZone("")
	for _, p := range list {
		if p.Contains(client) {
			return true
		}
	}
	return false
}

// Holder returns the holder of a client's address. A client with an IPv6
// address usually has all of its /64, so a /64 is one holder. All unknown
// addresses are one holder, too.
func Holder(client netip.Addr) netip.Prefix {
	client = client.Unmap()
	bits := client.BitLen()
	if client.Is6() {
		bits = 64
	}
	prefix, _ := client.WithZone("").Prefix(bits)
	return prefix
}
