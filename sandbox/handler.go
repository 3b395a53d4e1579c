// Package sandbox registers the Caddy handler card_sandbox: a small card
// issuer to try the gateway against. demo/Caddyfile and tests use it; it is
// never part of a production build.
package sandbox

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/sandbox/issuer"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// Handler answers the card API from memory, as package issuer describes. It
// refuses requests without the gateway's identity headers with 403, and what
// it does not have with 404; the next handler is never called.
type Handler struct {
	// Name tells issuers of one process apart. Handlers of one name share
	// their customers and cards, and keep them over a reload. Default: empty,
	// which is a name like any other.
	Name string `json:"name,omitempty"`

	// MaxCustomers is how many customers may be created before the answer is
	// 507. Default: 10000.
	MaxCustomers int `json:"max_customers,omitempty"`

	// MaxCards is the same for cards. Default: 10000.
	MaxCards int `json:"max_cards,omitempty"`

	issuer *issuer.Issuer
}

// issuers outlives reloads: the new configuration takes its reference before
// the old one gives its own back.
var issuers = caddy.NewUsagePool()

// pooled lets an issuer be kept in a usage pool; it has nothing to close.
type pooled struct{ *issuer.Issuer }

func (pooled) Destruct() error { return nil }

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.card_sandbox",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision takes the issuer of this name, or makes it.
func (h *Handler) Provision(caddy.Context) error {
	bounds := issuer.Options{MaxCustomers: h.MaxCustomers, MaxCards: h.MaxCards}
	found, _, err := issuers.LoadOrNew(h.Name, func() (caddy.Destructor, error) {
		return pooled{issuer.New(bounds)}, nil
	})
	if err != nil {
		return err
	}
	h.issuer = found.(pooled).Issuer
	h.issuer.SetBounds(bounds)
	return nil
}

// Cleanup gives the issuer back, if Provision got as far as taking it.
func (h *Handler) Cleanup() error {
	if h.issuer == nil {
		return nil
	}
	_, err := issuers.Delete(h.Name)
	return err
}

// ServeHTTP answers the request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.issuer.ServeHTTP(w, r)
	return nil
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
