package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/assertion"
	"github.com/card-gateway/card-gateway/auth"
)

// AuthOptions are the options of card_auth.
type AuthOptions struct {
	// The largest request body in bytes, for operations without their own
	// max_body. Default: 1048576 (1 MiB).
	MaxBody int64 `json:"max_body,omitempty"`

	// How long the whole body of a request may take to arrive; at most the
	// window. Default: 30s, or the window if that is shorter.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// Answer rules 2 to 10 with one text, so that the answer does not show which
	// rule failed. Default: false, the published messages.
	GenericMessages bool `json:"generic_messages,omitempty"`

	// Judge and report, but also forward requests that would be refused, except
	// ambiguous and oversized ones. Use it only to introduce the gateway: while
	// it is on, nothing is protected. Default: false.
	DryRun bool `json:"dry_run,omitempty"`

	// Send the issuer a signed statement about each request, in
	// X-Gateway-Assertion. Default: none.
	Assert *AssertOptions `json:"assert,omitempty"`

	HeaderRule
}

// A site is the configuration of one card_auth, for all its requests.
type site struct {
	*AuthOptions
	rules     *rules
	state     *state
	telemetry *telemetry
	other     *auth.Operation
	signer    *assertion.Signer // of assertions; nil: none are sent

	server *caddyhttp.Server // of the handler
	behind behind            // what follows the handler
}

// operation returns the operation of a request, and the scope that the request
// needs. The operations that the gateway answers
// itself exist only where [behind.answersOwn] holds. Elsewhere an issuer may
// answer their paths, which are then as closed as any that no operation names.
func (s *site) operation(method, path string) (operation *auth.Operation, scope string, refusal *auth.Refusal) {
	operation, scope, refusal = s.rules.table.Match(method, path)
	if refusal == nil && operation.Own && !s.behind.answersOwn {
		operation, scope = s.other, auth.ScopeAll
	}
	return operation, scope, refusal
}
