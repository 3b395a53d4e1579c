package caddymodule

import (
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/held"
)

// Refuse is the handler card_refuse. It refuses every request for one reason,
// as card_auth refuses: with a JSON body, X-Request-Id, a line in the log and
// a count in card_gateway_requests_total under the operation other.
//
// It belongs where no other handler answers. If no handler takes a request,
// Caddy answers an empty 200, which for some operations means success.
type Refuse struct {
	// The reason: `unknown_host` (421, no site has the host of the request) or
	// `not_found` (404, the site has nothing at this path).
	Reason string `json:"reason"`

	reason   auth.Reason
	unjudged unjudged
}

// CaddyModule returns the Caddy module information.
func (*Refuse) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_refuse", New: func() caddy.Module { return new(Refuse) }}
}

// Provision finds the app.
func (h *Refuse) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx, "card_refuse", h)
	if err != nil {
		return err
	}
	h.unjudged = newUnjudged(app)
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
	if h.reason == auth.NotFound {
		refusal.Details = whereOperationsLie
	}
	return h.unjudged.refuse(w, r, refusal)
}

// unjudged answers requests that no card_auth has judged. It counts them under
// the operation other.
type unjudged struct {
	telemetry *telemetry
	other     *auth.Operation
}

func newUnjudged(app *App) unjudged {
	return unjudged{app.telemetry, app.rules.table.ByName(auth.OtherOperation)}
}

// refuse answers with a refusal.
func (u *unjudged) refuse(w http.ResponseWriter, r *http.Request, refusal *auth.Refusal) error {
	held.DiscardRest(w, r)
	start, info := time.Now(), new(requestInfo)
	r = info.begin(u.telemetry, r, nil)
	info.Client, _ = clientAddress(r)
	err := refuse(newResponseWriter(w, info), r, refusal)
	info.overhead = time.Since(start)
	info.count(u.other)
	traceOutcome(info)
	return err
}

// misplaced answers for a handler that needs a card_auth before it.
func (u *unjudged) misplaced(w http.ResponseWriter, r *http.Request, handler string) error {
	u.telemetry.log.Error(handler + " runs where card_auth has not run before; put card_auth in front of it")
	return u.refuse(w, r, auth.Refuse(auth.InternalError, handler+" without card_auth"))
}
