package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(new(Open))
}

// Open is the handler card_open. It does nothing. It states that a reverse_proxy
// behind it in the same route is meant to be reached by requests under /api/v1/
// that no card_auth has judged; without it such a configuration is an error.
type Open struct{}

// CaddyModule returns the Caddy module information.
func (*Open) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_open", New: func() caddy.Module { return new(Open) }}
}

// Provision checks the routes around the handler.
func (h *Open) Provision(ctx caddy.Context) error {
	_, err := appOf(ctx, "card_open", h)
	return err
}

func (*Open) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// UnmarshalCaddyfile reads `card_open`.
func (h *Open) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return readHandler(d, "card_open", nil)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Open)(nil)
	_ caddyhttp.MiddlewareHandler = (*Open)(nil)
	_ caddyfile.Unmarshaler       = (*Open)(nil)
)
