package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/caddymodule/request"
)

// Health is the handler card_health. It reports whether the process lives, or
// whether the gateway is ready, that is, the store can settle requests.
type Health struct {
	// The Check: `live` or `ready`. `live` answers 200 as long as the process
	// serves. `ready` answers 503 with the reason while the store would refuse
	// the next correct request, and while the gateway shuts down; else 200.
	// Trouble that stops only changes of keys, logs or comparisons is a 200 that
	// lists it in `degraded`, and so is a check that fails while requests are settled. The reason contains no addresses and paths; the
	// log has them.
	Check string `json:"check"`

	state *state
}

// CaddyModule returns the Caddy module information.
func (Health) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_health", New: func() caddy.Module { return new(Health) }}
}

// Provision finds the app.
func (h *Health) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx, "card_health", h)
	if err != nil {
		return err
	}
	h.state = app.state
	return nil
}

// Validate checks the kind of check.
func (h *Health) Validate() error { return validCheck(h.Check) }

func validCheck(check string) error {
	if check != "live" && check != "ready" {
		return fmt.Errorf("card_health %q: ask for live or ready", check)
	}
	return nil
}

// healthBody is the body of an answer. Load balancers may log it.
type healthBody struct {
	Status   string   `json:"status"`
	Reason   string   `json:"reason,omitempty"`
	Degraded []string `json:"degraded,omitempty"`
}

func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	status, body := http.StatusOK, healthBody{Status: h.Check}
	if h.Check == "ready" {
		status, body = h.ready(r)
	}
	if request.ClosesAfter(r) || h.state.process.Drain.SendsAway(&h.state.left, r) {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(body)
}

func (h *Health) ready(r *http.Request) (int, healthBody) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if draining(r) {
		return http.StatusServiceUnavailable, healthBody{Status: "not ready", Reason: "the gateway is shutting down"}
	}
	if node.Process.Drain.ByOperator() {
		return http.StatusServiceUnavailable, healthBody{Status: "not ready", Reason: node.ErrDrained.Error()}
	}
	if err := h.state.ready(ctx); err != nil {
		return http.StatusServiceUnavailable, healthBody{Status: "not ready", Reason: cardlog.MaskPlaces(err.Error())}
	}
	return http.StatusOK, healthBody{Status: "ready", Degraded: h.state.degraded(ctx)}
}

// draining reports whether the process ends, or Caddy will soon close the
// listener of the request (shutdown_delay).
func draining(r *http.Request) bool {
	if caddy.Exiting() {
		return true
	}
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return false
	}
	scheduled, _ := replacer.Get("http.shutting_down")
	return scheduled == true
}

// Interface guard
var _ caddy.Validator = (*Health)(nil)

// UnmarshalCaddyfile reads `card_health live` or `card_health ready`.
func (h *Health) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.NextArg() {
		return d.Err("card_health needs one argument: live or ready")
	}
	h.Check = d.Val()
	if err := validCheck(h.Check); err != nil {
		return d.WrapErr(err)
	}
	return directive.NoMore(d)
}
