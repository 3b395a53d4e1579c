// Package settings has the options of the app card_gateway, and what they come to.
//
// Begin with [Config], the options with their defaults, which [New] compiles to
// [Settings]. Their lines of the Caddyfile are in caddyfile, and what all gateways on a
// store must have alike in policy.
package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/secret"
)

// Config are the options of the app card_gateway.
type Config struct {
	// Where nonces, failure counts, limits and keys are remembered: the module
	// `file` for one node or `redis` for several.
	// Default: `file` in the directory card-gateway of Caddy's data directory.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=card_gateway.stores inline_key=module"`

	// Where to find the master key that seals the secrets at rest: 32 bytes in
	// base64, one per line. With several lines the first seals and all open;
	// this is how a master key is rotated. Required, without a default. Anybody
	// who has it can open every stored secret.
	MasterKey *secret.Ref `json:"master_key,omitempty"`

	// `required` refuses the records of keys that have no seal: without the master
	// key, nobody who writes to the store can then grant anything to a key. Set it
	// after `card-keys seal`. Default: a new store refuses them, too; those of a
	// store of version 0.1 are accepted, as that version wrote them.
	Seal string `json:"seal,omitempty"`

	// The file of the audit record: every change of a key and every attempt, each
	// lock, and each load of a configuration, as JSON lines with a number and the
	// hash of the line before. Placeholders are expanded. Without it the record is
	// the lines of the logger `card_gateway.audit`, which share the outputs, levels
	// and losses of other logs. Default: none.
	Audit *AuditConfig `json:"audit,omitempty"`

	// How far X-Timestamp may differ from the server's clock, in both
	// directions, and how long a nonce cannot be used again. Default: 5m.
	Window caddy.Duration `json:"window,omitempty"`

	// How many consecutive failures lock a key. Default: 50.
	LockAfter int `json:"lock_after,omitempty"`

	// How long a lock holds. Default: until an operator unlocks the key.
	LockDuration caddy.Duration `json:"lock_duration,omitempty"`

	// Rules that also count towards the lock, besides a wrong body hash or
	// signature: `ip`, `timestamp`, `nonce`. They count even if the request is
	// correctly signed. With `ip`, anybody who knows a key id can lock that key.
	// Default: none.
	LockCounts []string `json:"lock_counts,omitempty"`

	// After a loss of nonces (a reboot, a failover): requests stamped up to this
	// long after that moment are refused. Default: 5s, or the window if that is
	// shorter.
	ReplayFloorAhead *caddy.Duration `json:"replay_floor_ahead,omitempty"`

	// Rate limits by operation, and by the names `default` (every operation,
	// each in a bucket of its own) and `total` (all operations of a key
	// together): `60/1m burst 10`. Default: a built-in limit per operation,
	// no total.
	Limits map[string]Limit `json:"limits,omitempty"`

	// Operations besides those of the published interface. An operation with
	// the name of a built-in one replaces it.
	Operations []OperationConfig `json:"operations,omitempty"`

	// The most bytes of request bodies that are in memory at the same time;
	// beyond it requests are answered with 503. Default: 268435456 (256 MiB).
	BodyBudget int64 `json:"body_budget,omitempty"`

	// The part of body_budget that the requests of one key may hold, above 0
	// and at most 1; beyond it they are answered with 503. Default: 0.125.
	BodyShare float64 `json:"body_share,omitempty"`

	// The part of body_budget that the requests from one client address may
	// hold. Default: 0.25.
	BodyShareAddress float64 `json:"body_share_address,omitempty"`

	// A directory outside of the store's, which must outlive the process but
	// need not survive a reboot. The embedded store keeps the high-water mark of
	// its journal there, and the store redis the time of its last acceptance.
	// Placeholders are expanded. A changed value applies from the next start of
	// the process. Default: RUNTIME_DIRECTORY of systemd, else XDG_RUNTIME_DIR,
	// else STATE_DIRECTORY of systemd, else Caddy's data directory. The gateway warns
	// where that is inside the store's.
	RuntimeDir string `json:"runtime_dir,omitempty"`

	// The file of the tokens that open the admin API where Caddy's admin endpoint
	// is not a unix socket: a line for each with a name, the role `viewer` (read)
	// or `keys` (change), and a token of at least 32 characters. The name is the
	// actor in the audit record. The file is read again at each load. Default:
	// none; then the admin API answers on a unix socket only.
	AdminToken *secret.Ref `json:"admin_token,omitempty"`

	// The most bytes of answers that are in memory at the same time to be
	// translated or signed; beyond it the client gets 503, and the issuer is not asked.
	// One key may hold a quarter, one address of a tenant half of it.
	// Default: 134217728 (128 MiB).
	AnswerBudget int64 `json:"answer_budget,omitempty"`

	// Sign the answers to requests that passed rules 1 to 10, with the secret that
	// verified the request: X-Response-Timestamp, X-Response-Body-Hash and
	// X-Response-Signature. They are held in answer_budget until they are complete;
	// one that cannot be held is streamed unsigned. Default: false.
	SignResponses bool `json:"sign_responses,omitempty"`

	// Allow logs that get requests and have no format card. They show key ids,
	// signatures, nonces and query values. Default: false; such a log is an error.
	LogUnredacted bool `json:"log_unredacted,omitempty"`

	// The address of a page with an anchor for each message and code, such as
	// docs/errors.md of the gateway: every refusal then carries error.doc_url,
	// and every finding in error.details a doc_url of its own.
	// Default: none.
	DocsURL string `json:"docs_url,omitempty"`
}

// Limit is a rate limit, written as text: `60/1m burst 10 cost 5`.
type Limit struct{ ratelimit.Limit }

// MarshalText returns the limit as it is written.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses a limit.
func (l *Limit) UnmarshalText(text []byte) (err error) {
	l.Limit, err = ratelimit.ParseLimit(string(text))
	return err
}

// AuditConfig says where the audit record is written.
type AuditConfig struct {
	// The path of the file. Its directory must exist, and only one process may
	// write the file.
	File string `json:"file"`
}

// OperationConfig is one line of the table of operations. Several lines with one
// name are one operation, each with its own scope.
type OperationConfig struct {
	// The operation's name, used for limits, metrics and logs: lower-case
	// letters, digits and `_`.
	Name string `json:"name"`
	// The HTTP method. HEAD is matched as GET.
	Method string `json:"method"`
	// The Path, with a placeholder in braces for a whole segment:
	// `/api/v1/cards/{cardId}/freeze`. Literals match without regard to case.
	Path string `json:"path"`
	// The Scope that a key needs for this method and path, such as `cards:write`.
	Scope string `json:"scope"`
	// The largest request body of the whole operation in bytes. Lines with one
	// name must not name two sizes. Default: max_body of card_auth.
	MaxBody int64 `json:"max_body,omitempty"`
	// The largest answer in bytes that is held to be translated or signed. A larger one
	// is sent unsigned, or withheld with 502 if it must be translated. As much is reserved
	// in answer_budget before the issuer is asked, up to 64 KiB. Lines with one name must
	// not name two sizes. Default: 8388608 (8 MiB).
	MaxAnswer int64 `json:"max_answer,omitempty"`
}

func operationDefs(operations []OperationConfig) []auth.OperationDef {
	defs := make([]auth.OperationDef, len(operations))
	for i, o := range operations {
		defs[i] = auth.OperationDef{Name: o.Name, Method: o.Method, Pattern: o.Path, Scope: o.Scope, MaxBody: o.MaxBody, MaxAnswer: o.MaxAnswer}
	}
	return defs
}

// Settings are what one configuration decides: the operations and their limits,
// the window, and what locks a key.
type Settings struct {
	Table        *auth.Table
	operations   []auth.OperationDef // those that are configured
	Limits       *ratelimit.Policy
	Window       time.Duration
	FloorAhead   time.Duration // replay_floor_ahead
	LockAfter    int
	LockDuration time.Duration
	LockCounts   auth.Rules
	BodyBudget   int64 // bytes
	// The parts of the body budget that one key and one address may hold.
	BodyShare, BodyShareAddress float64
	AnswerBudget                int64 // bytes
	SignResponses               bool
	SealRequired                bool
}

// sealRequired is the value of the option seal.
const sealRequired = "required"

// New compiles the options of the app, with defaults for missing ones.
func New(c *Config) (*Settings, error) {
	r := &Settings{
		Window: cmp.Or(time.Duration(c.Window), 5*time.Minute), LockAfter: cmp.Or(c.LockAfter, 50), LockDuration: time.Duration(c.LockDuration),
		BodyBudget: cmp.Or(c.BodyBudget, 256<<20), BodyShare: cmp.Or(c.BodyShare, 1.0/8), BodyShareAddress: cmp.Or(c.BodyShareAddress, 1.0/4),
		AnswerBudget: cmp.Or(c.AnswerBudget, 128<<20), SignResponses: c.SignResponses, SealRequired: c.Seal == sealRequired,
	}
	r.FloorAhead = min(5*time.Second, r.Window)
	if c.ReplayFloorAhead != nil {
		r.FloorAhead = time.Duration(*c.ReplayFloorAhead)
	}
	if c.Seal != "" && !r.SealRequired {
		return nil, fmt.Errorf("seal: want %s, or leave it out", sealRequired)
	}
	if err := checkDocsURL(c.DocsURL); err != nil {
		return nil, err
	}
	var err error
	r.operations = operationDefs(c.Operations)
	if r.Table, err = auth.NewTable(r.operations); err != nil {
		return nil, fmt.Errorf("operations: %w", err)
	}
	if r.Limits, err = newPolicy(c.Limits, r.Table); err != nil {
		return nil, err
	}
	if r.LockCounts, err = parseLockCounts(c.LockCounts); err != nil {
		return nil, err
	}
	return r, r.check()
}

// check refuses values that are out of range.
func (r *Settings) check() error {
	switch {
	case r.Window < time.Second || r.Window > 24*time.Hour:
		return fmt.Errorf("window is %s; it must be between 1s and 24h", r.Window)
	case r.LockAfter < 1:
		return fmt.Errorf("lock_after is %d; it must be 1 or more", r.LockAfter)
	case r.LockDuration < 0:
		return errors.New("lock_duration is negative; leave it out to lock until an operator unlocks")
	case r.FloorAhead < 0 || r.FloorAhead > r.Window:
		return fmt.Errorf("replay_floor_ahead is %s; it must be between 0s and the window", r.FloorAhead)
	case r.BodyBudget < 1<<20:
		return fmt.Errorf("body_budget is %d bytes; it must be 1MiB or more", r.BodyBudget)
	case r.AnswerBudget < 1<<20:
		return fmt.Errorf("answer_budget is %d bytes; it must be 1MiB or more", r.AnswerBudget)
	}
	if err := cmp.Or(checkShare("body_share", r.BodyShare), checkShare("body_share_address", r.BodyShareAddress)); err != nil {
		return err
	}
	for _, operation := range r.Table.Operations() {
		if err := r.CheckMaxBody(operation.MaxBody); err != nil {
			return fmt.Errorf("operation %s: %w", operation.Name, err)
		}
	}
	return nil
}

// The parts of answer_budget that one key and one address may hold. While an
// answer is translated it is in memory three times: as received, in one piece,
// and translated.
const (
	AnswerShare        = 1.0 / 4
	AnswerShareAddress = 1.0 / 2
)

func checkShare(name string, share float64) error {
	if share <= 0 || share > 1 {
		return fmt.Errorf("%s is %g; it must be above 0 and at most 1", name, share)
	}
	return nil
}

// CheckMaxBody returns an error if not even one body of the size fits into the
// share of one key or address. A large body is held in whole blocks, so its size
// is rounded up.
func (r *Settings) CheckMaxBody(size int64) error {
	for _, share := range []struct {
		name string
		part float64
	}{{"body_share", r.BodyShare}, {"body_share_address", r.BodyShareAddress}} {
		if most := held.Share(r.BodyBudget, share.part); held.Rounded(size) > most {
			return fmt.Errorf("max_body is %d bytes, more than one caller may hold: %s is %g of body_budget, %d bytes, which is %d; raise body_budget or %s, or lower max_body",
				size, share.name, share.part, r.BodyBudget, most, share.name)
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

// CheckLimits refuses limits of a key that name no operation.
func (r *Settings) CheckLimits(limits map[string]json.RawMessage) error {
	for name := range limits {
		if !limitName(name, r.Table) {
			return unknownLimit(name, r.Table)
		}
	}
	return nil
}

// CheckScopes refuses scopes of a key that no operation needs: with a mistyped
// scope the key would work nowhere.
func (r *Settings) CheckScopes(scopes []string) error {
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
func (r *Settings) knownScopes() []string {
	known := auth.KnownScopes()
	for _, operation := range r.Table.Operations() {
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

// checkDocsURL refuses an address that an anchor cannot follow.
func checkDocsURL(address string) error {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Contains(address, "#") {
		return fmt.Errorf("docs_url %q: want the address of a page, without #: https://docs.example.com/errors", address)
	}
	return nil
}
