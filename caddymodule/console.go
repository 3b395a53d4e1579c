package caddymodule

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/caddymodule/admin"
	"github.com/card-gateway/card-gateway/caddymodule/console"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
)

// Console is the handler card_console. It serves the console for operators below
// /card-gateway/, the page and the calls of the admin API that the page makes.
// Other paths go to the next handler. Page and calls are answered over loopback, a
// unix socket and TLS only. Each call needs a token of the option admin_token; the
// page itself shows nothing.
type Console struct {
	// Let tokens of the role keys make, rotate, disable, enable and unlock keys.
	// Whoever learns such a token can then do so wherever the site can be
	// reached. Default: false, the console only reads.
	Changes bool `json:"changes,omitempty"`

	handler http.Handler
}

// CaddyModule returns the Caddy module information.
func (*Console) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_console", New: func() caddy.Module { return new(Console) }}
}

// Provision finds the app. It is an error if there are no tokens.
func (h *Console) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx, "card_console", h)
	if err != nil {
		return err
	}
	if app.tokens == nil {
		return errors.New("card_console: it opens only to a token, and there is none: write `admin_token file PATH` into the block card_gateway")
	}
	h.handler = console.Handler(app.Admin(), admin.SiteOptions{Changes: h.Changes})
	return nil
}

func (h *Console) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !strings.HasPrefix(r.URL.Path, console.Root) {
		return next.ServeHTTP(w, r)
	}
	h.handler.ServeHTTP(w, r)
	return nil
}

// UnmarshalCaddyfile reads:
//
//	card_console {
//	    changes
//	}
func (h *Console) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return directive.Handler(d, "card_console", []directive.Option{directive.Flag("changes", &h.Changes)})
}
