// Package adminapi has the values that the admin API of a gateway answers with and
// takes, for the gateway and for its clients. What it says of a key is a value of
// package keys.
//
// Begin with [Status], the answer that has most of the others in it. The routes and
// who may call them are listed in package
// caddymodule/admin.
package adminapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/card-gateway/card-gateway/auditfile"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/offenders"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// ActorHeader is the header in which a client says for whom it makes a call.
const ActorHeader = "X-Card-Gateway-Actor"

// A Status is the answer to GET /card-gateway/status.
type Status struct {
	Build
	keys.Status
	State
	Caller Caller `json:"caller"`
}

// A Build describes the running binary. A part is "unknown" if the binary does
// not contain it.
type Build struct {
	Version string `json:"version"` // of the gateway, such as v0.1.0
	Commit  string `json:"commit"`  // of the gateway; "+dirty" at the end: with changes
	Caddy   string `json:"caddy"`   // such as v2.11.9
	Go      string `json:"go"`      // such as go1.27.3
}

// A Caller is who makes a call, as it was authenticated.
type Caller struct {
	Name string `json:"name"` // of its token, else unix: and the path of the socket
	Role Role   `json:"role"` // keys: it may change keys here
}

// A Role is what a caller may do.
type Role string

// The roles of a caller.
const (
	RoleViewer Role = "viewer" // read
	RoleKeys   Role = "keys"   // read, and change keys and the running gateway
)

// A KeyPage is one page of a listing of keys.
type KeyPage struct {
	Keys []keys.View `json:"keys"`
	Next string      `json:"next,omitempty"` // the cursor of the next page; absent at the end
}

// A Deletion is the answer to the deletion of a key.
type Deletion struct {
	ID         string `json:"id"`
	Deleted    bool   `json:"deleted"`
	Replicated *bool  `json:"replicated,omitempty"`
}

// A RotateRequest is the body of a rotation.
type RotateRequest struct {
	Overlap *string `json:"overlap,omitempty"` // a duration; nil: [keys.DefaultOverlap]
	Forget  bool    `json:"forget"`
}

// A SealRequest is the body of a seal.
type SealRequest struct {
	Digest string `json:"digest"`
}

// A CopyRequest is the body of a copy: exactly one of its fields.
type CopyRequest struct {
	// Dir is the directory of an embedded store, a path on the gateway's machine.
	Dir string `json:"dir,omitempty"`
	// Store is the option store of another configuration, in JSON.
	Store json.RawMessage `json:"store,omitempty"`
}

// A RestoreRequest is the body of a restore: where the backup is, as for a copy, and the
// digest of the record that is approved; without one, nothing is changed.
type RestoreRequest struct {
	CopyRequest
	Digest string `json:"digest,omitempty"`
}

// A DrainRequest is the body of a drain.
type DrainRequest struct {
	For string `json:"for,omitempty"` // how long the work takes
}

// A LogLevelRequest is the body of a change of the log's level.
type LogLevelRequest struct {
	Level string `json:"level"`         // debug or info
	For   string `json:"for,omitempty"` // how long debug holds
}

// An Error is an error that is answered with a status.
type Error struct {
	Status int
	Err    error
}

// Error returns the text of the cause.
func (e Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e Error) Unwrap() error { return e.Err }

// StatusOf returns the status with which the admin API answers an error.
func StatusOf(err error) int {
	if answered, ok := errors.AsType[Error](err); ok {
		return answered.Status
	}
	status := http.StatusServiceUnavailable
	var invalid *fields.InvalidError
	switch {
	case errors.As(err, &invalid):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, fields.ErrMalformed):
		status = http.StatusBadRequest
	case errors.Is(err, store.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrConflict), errors.Is(err, keys.ErrSecretInUse),
		errors.Is(err, keys.ErrForged), errors.Is(err, keys.ErrNotAsApproved):
		status = http.StatusConflict
	case errors.Is(err, keys.ErrRevision):
		status = http.StatusPreconditionFailed
	case errors.Is(err, keyring.ErrMasterKey), errors.Is(err, keyring.ErrDamaged):
		status = http.StatusInternalServerError
	}
	return status
}

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

// A Recent is what a gateway did in the last fifteen minutes, or since its process began.
type Recent struct {
	At    time.Time `json:"at"`    // when this was answered
	Steps []Step    `json:"steps"` // the oldest first
	// Keys are those with the most refusals, at most five.
	Keys []offenders.Series `json:"keys"`
	// Out is how many handlers have taken each issuer of card_forward out now; 0: it is in.
	Out map[string]int `json:"out"`
}

// A Step is what a gateway counted in some ten seconds. Maps have no zeros.
type Step struct {
	At      time.Time `json:"at"`      // its end
	Seconds float64   `json:"seconds"` // how long it was
	// Requests: accepted, refused because of the client (4xx), and refused because of the
	// gateway, its store or an issuer (5xx).
	Accepted uint64            `json:"accepted"`
	Refused  uint64            `json:"refused"`
	Failed   uint64            `json:"failed"`
	Outcomes map[string]uint64 `json:"outcomes"` // as in [Traffic]
	Upstream map[string]uint64 `json:"upstream"` // as in [Traffic]
	// Issuers are those of card_forward that answered; the empty one is all issuers together.
	Issuers map[string]Latency `json:"issuers"`
}

// A Latency is how long an issuer took to answer, in seconds: half of the answers, and 99 of
// a hundred, came within the time. It is at most a tenth too high.
type Latency struct {
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Answers uint64  `json:"answers"`
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
