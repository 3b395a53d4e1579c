package keyadmin

import (
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/auditfile"
	"github.com/card-gateway/card-gateway/caddymodule/offenders"
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
	// Audit is how far the audit file was written; nil: there is none.
	Audit *auditfile.State `json:"audit,omitempty"`
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
	// DebugUntil is until when the log has a line for each request.
	DebugUntil *time.Time `json:"log_debug_until,omitempty"`
}
