package console

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

func init() {
	caddy.RegisterModule(AdminPage{})
}

// AdminPage serves the page of the console on Caddy's admin endpoint, below
// /card-gateway/console/, beside the admin API that it calls. There a token of the
// role keys may always change keys.
type AdminPage struct{}

// CaddyModule returns the Caddy module information.
func (AdminPage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.card_gateway_console", New: func() caddy.Module { return new(AdminPage) }}
}

// Routes returns the route of the page.
func (AdminPage) Routes() []caddy.AdminRoute {
	serve := func(w http.ResponseWriter, r *http.Request) error {
		serveFile(w, r, signInFor(r))
		return nil
	}
	return []caddy.AdminRoute{{Pattern: pattern, Handler: caddy.AdminHandlerFunc(serve)}}
}

// signInFor returns whether calls on the connection of a request need a token.
func signInFor(r *http.Request) string {
	if keyadmin.OverSocket(r) {
		return signInNotNeeded
	}
	return signInNeeded
}

var _ caddy.AdminRouter = AdminPage{}
