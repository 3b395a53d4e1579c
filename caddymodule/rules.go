package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// rules are what one configuration decides: the operations and their limits,
// the window, and what locks a key.
type rules struct {
	table        *auth.Table
	operations   []auth.OperationDef // those that are configured
	limits       *ratelimit.Policy
	window       time.Duration
	floorAhead   time.Duration // replay_floor_ahead
	lockAfter    int
	lockDuration time.Duration
	lockCounts   auth.Rules
	bodyBudget   int64 // bytes
	// The parts of the body budget that one key and one address may hold.
	bodyShare, bodyShareAddress float64
	answerBudget                int64 // bytes
	signResponses               bool
	sealRequired                bool
}

// sealRequired is the value of the option seal.
const sealRequired = "required"

// newRules compiles the options of the app, with defaults for missing ones.
func newRules(c *Config) (*rules, error) {
	r := &rules{
		window: time.Duration(c.Window), lockAfter: c.LockAfter, lockDuration: time.Duration(c.LockDuration), bodyBudget: c.BodyBudget,
		signResponses: c.SignResponses, sealRequired: c.Seal == sealRequired,
	}
	if r.window == 0 {
		r.window = 5 * time.Minute
	}
	if r.lockAfter == 0 {
		r.lockAfter = 50
	}
	if r.bodyBudget == 0 {
		r.bodyBudget = 256 << 20
	}
	if r.bodyShare, r.bodyShareAddress = c.BodyShare, c.BodyShareAddress; r.bodyShare == 0 {
		r.bodyShare = 1.0 / 8
	}
	if r.bodyShareAddress == 0 {
		r.bodyShareAddress = 1.0 / 4
	}
	if r.answerBudget = c.AnswerBudget; r.answerBudget == 0 {
		r.answerBudget = 128 << 20
	}
	r.floorAhead = min(5*time.Second, r.window)
	if c.ReplayFloorAhead != nil {
		r.floorAhead = time.Duration(*c.ReplayFloorAhead)
	}
	if c.Seal != "" && !r.sealRequired {
		return nil, fmt.Errorf("seal: want %s, or leave it out", sealRequired)
	}
	var err error
	r.operations = operationDefs(c.Operations)
	if r.table, err = auth.NewTable(r.operations); err != nil {
		return nil, fmt.Errorf("operations: %w", err)
	}
	if r.limits, err = newPolicy(c.Limits, r.table); err != nil {
		return nil, err
	}
	if r.lockCounts, err = parseLockCounts(c.LockCounts); err != nil {
		return nil, err
	}
	return r, r.check()
}

// check refuses values that are out of range.
func (r *rules) check() error {
	switch {
	case r.window < time.Second || r.window > 24*time.Hour:
		return fmt.Errorf("window is %s; it must be between 1s and 24h", r.window)
	case r.lockAfter < 1:
		return fmt.Errorf("lock_after is %d; it must be 1 or more", r.lockAfter)
	case r.lockDuration < 0:
		return errors.New("lock_duration is negative; leave it out to lock until an operator unlocks")
	case r.floorAhead < 0 || r.floorAhead > r.window:
		return fmt.Errorf("replay_floor_ahead is %s; it must be between 0s and the window", r.floorAhead)
	case r.bodyBudget < 1<<20:
		return fmt.Errorf("body_budget is %d bytes; it must be 1MiB or more", r.bodyBudget)
	case r.answerBudget < 1<<20:
		return fmt.Errorf("answer_budget is %d bytes; it must be 1MiB or more", r.answerBudget)
	}
	if err := checkShare("body_share", r.bodyShare); err != nil {
		return err
	}
	if err := checkShare("body_share_address", r.bodyShareAddress); err != nil {
		return err
	}
	for _, operation := range r.table.Operations() {
		if err := r.checkMaxBody(operation.MaxBody); err != nil {
			return fmt.Errorf("operation %s: %w", operation.Name, err)
		}
	}
	return nil
}

// The parts of answer_budget that one key and one address may hold. While an
// answer is translated it is in memory three times: as received, in one piece,
// and translated.
const (
	answerShare        = 1.0 / 4
	answerShareAddress = 1.0 / 2
)

func checkShare(name string, share float64) error {
	if share <= 0 || share > 1 {
		return fmt.Errorf("%s is %g; it must be above 0 and at most 1", name, share)
	}
	return nil
}

// checkMaxBody returns an error if not even one body of the size fits into the
// share of one key or address. A large body is held in whole blocks, so its size
// is rounded up.
func (r *rules) checkMaxBody(size int64) error {
	for _, share := range []struct {
		name string
		part float64
	}{{"body_share", r.bodyShare}, {"body_share_address", r.bodyShareAddress}} {
		if most := shareOf(r.bodyBudget, share.part); roundedToBlocks(size) > most {
			return fmt.Errorf("max_body is %d bytes, more than one caller may hold: %s is %g of body_budget, %d bytes, which is %d; raise body_budget or %s, or lower max_body",
				size, share.name, share.part, r.bodyBudget, most, share.name)
		}
	}
	return nil
}

func newPolicy(limits map[string]Limit, table *auth.Table) (*ratelimit.Policy, error) {
	plain := make(map[string]ratelimit.Limit, len(limits))
	for name, limit := range limits {
		if !limitName(name, table) {
			return nil, unknownLimit(name, table)
		}
		plain[name] = limit.Limit
	}
	return ratelimit.NewPolicy(plain)
}

// limitName reports whether a limit can have the name: that of an operation,
// default or total.
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
func (r *rules) checkLimits(limits map[string]json.RawMessage) error {
	for name := range limits {
		if !limitName(name, r.table) {
			return unknownLimit(name, r.table)
		}
	}
	return nil
}

// checkScopes refuses scopes of a key that no operation needs: with a mistyped
// scope the key would work nowhere.
func (r *rules) checkScopes(scopes []string) error {
	known := r.knownScopes()
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
func (r *rules) knownScopes() []string {
	known := auth.KnownScopes()
	for _, operation := range r.table.Operations() {
		known = append(known, operation.Scopes...)
	}
	known = slices.DeleteFunc(known, func(scope string) bool { return scope == auth.ScopeAll || scope == auth.ScopeNone })
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
