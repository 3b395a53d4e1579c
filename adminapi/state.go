package adminapi

import (
	"time"

	"github.com/card-gateway/card-gateway/auditfile"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/offenders"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// A State is what a running gateway reports of itself beside its store and keys.
type State struct {
	// Ready is whether /readyz answers 200, and Reason why not.
	Ready    bool     `json:"ready"`
	Reason   string   `json:"reason,omitempty"`
	Degraded []string `json:"degraded"`
	Node
	// Policy is the hash of the options that must be the same on all gateways.
	Policy string `json:"policy"`
	Loads  Loads  `json:"loads"`
	// Offenders are the keys with the most refusals of the last five minutes, at
	// most ten.
	Offenders []offenders.Entry `json:"offenders"`
	Traffic   Traffic           `json:"traffic"`
	// Audit is how far the audit file was written; nil: there is none.
	Audit  *auditfile.State `json:"audit,omitempty"`
	Bodies BodyMemory       `json:"bodies"`
}

// BodyMemory is the memory that request bodies hold, in bytes, and the keys that
// hold most of it.
type BodyMemory struct {
	Bytes   int64            `json:"bytes"`
	Limit   int64            `json:"limit"`
	Holders []held.KeyHolder `json:"holders"` // at most ten, the largest first
}

// Traffic is what the process counted since its start. Maps have no zeros.
type Traffic struct {
	Since    time.Time         `json:"since"`
	Outcomes map[string]uint64 `json:"outcomes"` // requests: accepted, or by the reason of the refusal
	Upstream map[string]uint64 `json:"upstream"` // what the issuers answered, by class: 2xx to 5xx, error, timeout
	// Connections are those of card_forward, by issuer.
	Connections map[string]uint64 `json:"connections"`
	// LimitsNear and LimitsRefused are decisions on rate limits by operation; near
	// means that less than a fifth is left.
	LimitsNear    map[string]uint64 `json:"limits_near"`
	LimitsRefused map[string]uint64 `json:"limits_refused"`
}

// A Limit is a bucket of a key, in the numbers of X-RateLimit-*.
type Limit struct {
	Bucket    string `json:"bucket"`
	Rate      string `json:"rate,omitempty"` // as an operator writes it: "60/1m burst 20"
	Limit     int64  `json:"limit"`          // capacity
	Remaining int64  `json:"remaining"`
	Reset     int64  `json:"reset"` // Unix seconds when the bucket is full again
}

// NewLimit returns the view of a bucket, whose rate may be empty.
func NewLimit(s *ratelimit.State, rate string) Limit {
	return Limit{Bucket: s.Bucket, Rate: rate, Limit: s.Limit, Remaining: s.Remaining, Reset: s.Reset}
}

// Loads are the last loads of configurations in this process.
type Loads struct {
	At        time.Time  `json:"at"`                   // of the configuration that runs
	RefusedAt *time.Time `json:"refused_at,omitempty"` // of the last one that was refused
	Refusal   string     `json:"refusal,omitempty"`    // why it was refused
}

// A Node is what operators can change of one running gateway, until it ends.
type Node struct {
	// Drained is whether an operator has taken the gateway out of service:
	// /readyz answers 503, and requests are served.
	Drained bool `json:"drained"`
	// DrainedUntil is when the operator wanted to be done; nil if none was named.
	DrainedUntil *time.Time `json:"drained_until,omitempty"`
	// DebugUntil is until when the log has a line for each request.
	DebugUntil *time.Time `json:"log_debug_until,omitempty"`
}

// A Refusal is what a gateway remembers of a request that it has refused. It
// holds no secret, no signature and no body.
type Refusal struct {
	RequestID string            `json:"request_id"`
	At        time.Time         `json:"at"`
	Status    int               `json:"status"`
	Reason    string            `json:"reason"`
	Message   string            `json:"message"`
	Operation string            `json:"operation,omitempty"`
	KeyID     string            `json:"key_id,omitempty"`
	Tenant    string            `json:"tenant,omitempty"`
	Client    string            `json:"client_ip,omitempty"`
	Detail    string            `json:"detail,omitempty"` // as in the log
	Findings  []auth.FieldError `json:"findings,omitempty"`
	auth.SignedView
}
