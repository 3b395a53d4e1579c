package caddymodule

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/secret"
	"github.com/card-gateway/card-gateway/ratelimit"
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
	// in every new installation, and elsewhere after `card-keys seal`. Default:
	// records without a seal are accepted, as the version before wrote them.
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
	// else none; then the gateway warns.
	RuntimeDir string `json:"runtime_dir,omitempty"`

	// The file of the tokens that open the admin API where Caddy's admin endpoint
	// is not a unix socket: a line for each with a name, the role `viewer` (read)
	// or `keys` (change), and a token of at least 32 characters. The name is the
	// actor in the audit record. The file is read again at each load. Default:
	// none; then the admin API answers on a unix socket only.
	AdminToken *secret.Ref `json:"admin_token,omitempty"`

	// The most bytes of answers that are in memory at the same time to be
	// translated or signed; beyond it the client gets 503. One key may hold a quarter,
	// one address half of it. Default: 134217728 (128 MiB).
	AnswerBudget int64 `json:"answer_budget,omitempty"`

	// Sign the answers to requests that passed rules 1 to 10, with the secret that
	// verified the request: X-Response-Timestamp, X-Response-Body-Hash and
	// X-Response-Signature. They are held in answer_budget until they are complete;
	// one that cannot be held is streamed unsigned. Default: false.
	SignResponses bool `json:"sign_responses,omitempty"`
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
	// The path, with a placeholder in braces for a whole segment:
	// `/api/v1/cards/{cardId}/freeze`. Literals match without regard to case.
	Path string `json:"path"`
	// The scope that a key needs for this method and path, such as `cards:write`.
	Scope string `json:"scope"`
	// The largest request body of the whole operation in bytes. Lines with one
	// name must not name two sizes. Default: max_body of card_auth.
	MaxBody int64 `json:"max_body,omitempty"`
}

func operationDefs(operations []OperationConfig) []auth.OperationDef {
	defs := make([]auth.OperationDef, len(operations))
	for i, o := range operations {
		defs[i] = auth.OperationDef{Name: o.Name, Method: o.Method, Pattern: o.Path, Scope: o.Scope, MaxBody: o.MaxBody}
	}
	return defs
}
