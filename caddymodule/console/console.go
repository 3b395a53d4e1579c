// Package console serves the console for operators in a browser: pages that show
// what the admin API answers, and nothing else.
//
// Begin with [Console], the handler card_console. [AdminPage] is the same page on Caddy's
// admin endpoint.
package console

import (
	"bytes"
	"embed"
	"errors"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/caddymodule/admin"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/request"
)

// root is the path below which everything of the console is.
const root = "/card-gateway/"

// pattern is the route of the files.
const pattern = "GET " + root + "console/{file...}"

//go:embed page
var pages embed.FS

// kinds are the types of the files, by their endings.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// policy lets the page run its own scripts and ask its own origin. With trusted
// types no script can make HTML of a text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// site returns the console for a site: the page, and the calls of the admin API
// that it makes. Paths that are not below root are answered 404.
func site(gateway *admin.Gateway, options admin.SiteOptions) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, signInNeeded) })
	mux.Handle("/", admin.Site(gateway, options))
	return mux
}

// What the element meta of the page says of signing in with a token. A page that
// knows makes no call that can only be refused, and that would be a line of the
// audit record.
const (
	signInNeeded    = `name="sign-in" content="needed"` // as in the file
	signInNotNeeded = `name="sign-in" content="not needed"`
)

const openNetwork = `The console opens on loopback, on a unix socket and over TLS only: elsewhere the
token that you type would cross the network unencrypted. Give this site a
certificate, or bind it to 127.0.0.1 and forward the port from your own machine:
ssh -N -L PORT:127.0.0.1:PORT HOST`

// serveFile answers with a file of the page, which says of signing in one of the
// constants. The files hold nothing about the gateway, so they need no token
// themselves. Where a token would cross a network unencrypted there is no page
// either: a browser sends what is typed into it before it can be refused.
func serveFile(w http.ResponseWriter, r *http.Request, signIn string) {
	if !admin.Private(r) {
		http.Error(w, openNetwork, http.StatusForbidden)
		return
	}
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	text, err := pages.ReadFile("page/" + name)
	kind := kinds[path.Ext(name)]
	if err != nil || kind == "" {
		http.Error(w, "the console has no such file", http.StatusNotFound)
		return
	}
	text = bytes.Replace(text, []byte(signInNeeded), []byte(signIn), 1)
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Security-Policy", policy)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	// Caddy's admin endpoint wants to see from which page a call is made.
	header.Set("Referrer-Policy", "same-origin")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}

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
		signIn := signInNeeded
		if admin.OverSocket(r) {
			signIn = signInNotNeeded
		}
		serveFile(w, r, signIn)
		return nil
	}
	return []caddy.AdminRoute{{Pattern: pattern, Handler: caddy.AdminHandlerFunc(serve)}}
}

var _ caddy.AdminRouter = AdminPage{}

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
	joined, err := request.Join(ctx, "card_console", h)
	if err != nil {
		return err
	}
	gateway := joined.(interface{ Admin() *admin.Gateway }).Admin()
	if gateway.Tokens == nil {
		return errors.New("card_console: it opens only to a token, and there is none: write `admin_token file PATH` into the block card_gateway")
	}
	h.handler = site(gateway, admin.SiteOptions{Changes: h.Changes})
	return nil
}

func (h *Console) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !strings.HasPrefix(r.URL.Path, root) {
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
