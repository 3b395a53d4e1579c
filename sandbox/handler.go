// Package sandbox registers the Caddy handler card_sandbox: a small card
// issuer to try the gateway against. demo/Caddyfile and tests use it; it is
// never part of a production build.
package sandbox

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/sandbox/issuer"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// Handler answers the card API from memory, as package issuer describes. It
// answers 403 to requests without the gateway's identity headers, and 404 for
// resources that it does not have. Every answer has the header X-Sandbox, and
// X-Sandbox-Force asks for an answer on purpose. It never calls the next handler.
type Handler struct {
	// Name distinguishes the issuers of one process. Handlers with the same name
	// share their customers and cards, and keep them over a reload. Default:
	// empty, which is a name like any other.
	Name string `json:"name,omitempty"`

	// MaxCustomers is the largest number of customers. To create one more is
	// answered with 507. Default: 10000.
	MaxCustomers int `json:"max_customers,omitempty"`

	// MaxCards is the largest number of cards, as above. Default: 10000.
	MaxCards int `json:"max_cards,omitempty"`

	// MaxRecords is the largest number of documents, top-ups and webhook endpoints
	// together, as above. Default: 10000.
	MaxRecords int `json:"max_records,omitempty"`

	// Assertion makes the handler answer 403 to requests without a valid assertion
	// of the gateway. Default: not checked.
	Assertion *AssertionCheck `json:"assertion,omitempty"`

	issuer *issuer.Issuer
}

// issuers outlives reloads: the new configuration takes its reference before
// the old one releases its own.
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

// Provision takes a reference to the issuer of this name, and makes the issuer if
// there is none.
func (h *Handler) Provision(caddy.Context) error {
	bounds := issuer.Options{MaxCustomers: h.MaxCustomers, MaxCards: h.MaxCards, MaxRecords: h.MaxRecords}
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

// Cleanup releases the reference to the issuer, if Provision has taken one.
func (h *Handler) Cleanup() error {
	if h.issuer == nil {
		return nil
	}
	_, err := issuers.Delete(h.Name)
	return err
}

// ServeHTTP answers the request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if h.Assertion != nil {
		if err := h.Assertion.verify(r, time.Now()); err != nil {
			return refuseAssertion(w, err)
		}
	}
	h.issuer.ServeHTTP(w, r)
	return nil
}

// refuseAssertion answers in the issuer's own shape.
func refuseAssertion(w http.ResponseWriter, why error) error {
	text, err := json.Marshal(map[string]any{"success": false, "error": map[string]string{"code": "BAD_ASSERTION", "message": why.Error()}})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, err = w.Write(text)
	return err
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
