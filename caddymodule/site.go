package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
)

// AuthOptions are the options of card_auth.
type AuthOptions struct {
	// The largest request body in bytes, where the operation says nothing
	// else. Default: 1048576 (1 MiB).
	MaxBody int64 `json:"max_body,omitempty"`

	// How long the whole body of a request may take to arrive. Default: 30s, or
	// the window if that is shorter.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// Answer rules 2 to 10 with one text, so that nobody learns which failed.
	// Default: false, the published messages.
	GenericMessages bool `json:"generic_messages,omitempty"`

	// Judge and report, but let everything pass that is not ambiguous or
	// oversized. For introducing the gateway only: while it is on, nothing is
	// protected. Default: false.
	DryRun bool `json:"dry_run,omitempty"`

	HeaderRule
}

// A site is one card_auth as it is configured, for all requests that pass
// through it.
type site struct {
	*AuthOptions
	rules     *rules
	state     *state
	telemetry *telemetry
	other     *auth.Operation

	server *caddyhttp.Server // that the handler is part of
	behind behind            // the handler
}

// operation returns the operation of a request. Those that the gateway answers
// itself exist only where [behind.answersOwn] holds. Elsewhere an issuer may
// answer their paths, which are then as closed as any that no operation names.
func (s *site) operation(method, path string) (*auth.Operation, *auth.Refusal) {
	operation, refusal := s.rules.table.Match(method, path)
	if refusal == nil && operation.Own && !s.behind.answersOwn {
		operation = s.other
	}
	return operation, refusal
}
