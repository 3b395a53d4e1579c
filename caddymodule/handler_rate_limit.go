package caddymodule

import (
	"context"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/headers"
)

// RateLimit is the handler card_rate_limit. It notes in the request's context
// that rate limits apply, and how. card_auth must come after it, and charges
// the limits in the same atomic step that accepts the request. Without
// card_rate_limit nothing is charged and no rate limit header is sent.
//
// The limits themselves are part of the app card_gateway.
type RateLimit struct {
	RateLimitOptions

	log      *zap.Logger
	unjudged sync.Once // to log once that card_auth is missing
}

// CaddyModule returns the Caddy module information.
func (*RateLimit) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_rate_limit", New: func() caddy.Module { return new(RateLimit) }}
}

// Provision finds the log.
func (h *RateLimit) Provision(ctx caddy.Context) error {
	h.log = ctx.Logger()
	_, err := joinApp(ctx, "card_rate_limit", &h.RateLimitOptions)
	return err
}

func (h *RateLimit) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if infoFrom(r.Context()) != nil {
		return &auth.Refusal{Reason: auth.InternalError, Cause: errLimitsLate}
	}
	headers.DropIdentity(r.Header) // even if no card_auth follows, nobody must trust a client's own claim
	use := &carried{limits: &h.RateLimitOptions}
	err := next.ServeHTTP(w, use.with(r))
	if !use.judged {
		h.unjudged.Do(func() {
			h.log.Error("card_rate_limit let a request pass that card_auth did not judge: no limit applies and nothing is protected; put card_auth behind it")
		})
	}
	return err
}

// limitsFrom returns how limits apply to the request; nil if they do not.
func limitsFrom(ctx context.Context) *RateLimitOptions {
	use := carriedBy(ctx)
	if use == nil || use.limits == nil {
		return nil
	}
	use.judged = true
	return use.limits
}

// RateLimitOptions are the options of card_rate_limit.
type RateLimitOptions struct {
	// Decide and report, but refuse nothing. Default: false.
	DryRun bool `json:"dry_run,omitempty"`
	// Also send the headers RateLimit and RateLimit-Policy of the IETF draft.
	// Default: false.
	IETFHeaders bool `json:"ietf_headers,omitempty"`
}
