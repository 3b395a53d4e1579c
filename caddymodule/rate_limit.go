package caddymodule

import (
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/headers"
)

const errLimitsLate = cardlog.PlainError("card_rate_limit comes after card_auth; in a route of your own write card_rate_limit first")

// RateLimit is the handler card_rate_limit. It notes in the request's context
// that rate limits apply, and how. card_auth must come after it, and charges
// the limits in the same atomic step that accepts the request. Without
// card_rate_limit nothing is charged and no rate limit header is sent.
//
// The limits themselves are part of the app card_gateway.
type RateLimit struct {
	request.RateLimitOptions

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
	_, err := request.Join(ctx, "card_rate_limit", &h.RateLimitOptions)
	return err
}

func (h *RateLimit) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if request.From(r.Context()) != nil {
		return &auth.Refusal{Reason: auth.InternalError, Cause: errLimitsLate}
	}
	headers.DropIdentity(r.Header) // even if no card_auth follows, nobody must trust a client's own claim
	use := &request.Carried{Limits: &h.RateLimitOptions}
	err := next.ServeHTTP(w, use.With(r))
	if !use.Judged {
		h.unjudged.Do(func() {
			h.log.Error("card_rate_limit let a request pass that card_auth did not judge: no limit applies and nothing is protected; put card_auth behind it")
		})
	}
	return err
}

// UnmarshalCaddyfile reads:
//
//	card_rate_limit {
//	    dry_run
//	    ietf_headers
//	}
//
// The limits themselves are in the global block card_gateway.
func (h *RateLimit) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return directive.Handler(d, "card_rate_limit (limits are options of the global block card_gateway)", []directive.Option{
		directive.Flag("dry_run", &h.DryRun),
		directive.Flag("ietf_headers", &h.IETFHeaders),
	})
}
