package caddymodule

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/request"
)

// Refuse is the handler card_refuse. It refuses every request for one reason,
// as card_auth refuses: with a JSON body, X-Request-Id, a line in the log and
// a count in card_gateway_requests_total under the operation other.
//
// It belongs where no other handler answers. If no handler takes a request,
// Caddy answers an empty 200, which for some operations means success.
type Refuse struct {
	// The Reason: `unknown_host` (421, no site has the host of the request) or
	// `not_found` (404, the site has nothing at this path).
	Reason string `json:"reason"`

	reason   auth.Reason
	unjudged request.Unjudged
}

// CaddyModule returns the Caddy module information.
func (*Refuse) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_refuse", New: func() caddy.Module { return new(Refuse) }}
}

// Provision finds the app.
func (h *Refuse) Provision(ctx caddy.Context) error {
	app, err := request.Join(ctx, "card_refuse", h)
	if err != nil {
		return err
	}
	h.unjudged = app.Unjudged()
	h.reason, err = refusable(h.Reason)
	return err
}

// refusable returns the reason with the name, or an error if card_refuse cannot
// refuse for it.
func refusable(name string) (auth.Reason, error) {
	for _, reason := range []auth.Reason{auth.UnknownHost, auth.NotFound} {
		if name == reason.String() {
			return reason, nil
		}
	}
	return auth.InternalError, fmt.Errorf("card_refuse %q: write unknown_host or not_found", name)
}

func (h *Refuse) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	refusal := auth.Refuse(h.reason, "")
	switch {
	case r.Method == http.MethodOptions && r.RequestURI == "*": // what the server as a whole can do
		refusal = auth.Refuse(auth.MethodNotAllowed, "OPTIONS *")
	case h.reason == auth.NotFound:
		refusal.Details = request.WhereOperationsLie
	}
	return h.unjudged.Refuse(w, r, refusal)
}

// UnmarshalCaddyfile reads `card_refuse unknown_host` or
// `card_refuse not_found`.
func (h *Refuse) UnmarshalCaddyfile(d *caddyfile.Dispenser) (err error) {
	d.Next()
	if h.Reason, err = directive.OneArg(d, "one argument: unknown_host or not_found"); err != nil {
		return err
	}
	if _, err := refusable(h.Reason); err != nil {
		return d.WrapErr(err)
	}
	return nil
}
