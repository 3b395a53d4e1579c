package caddymodule

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/request"
)

// JWKS is the handler card_jwks. It answers with the public keys of all assert
// options of the configuration, as a JWK set, for issuers that verify assertions.
// The answer may be kept for five minutes, so a new key must be published for
// longer than that before it signs. Keys of HS256 are never in it.
type JWKS struct {
	published *publishedKeys
	unjudged  request.Unjudged
}

// maxAgeJWKS is how long a JWK set may be kept, in seconds.
const maxAgeJWKS = 300

// CaddyModule returns the Caddy module information.
func (*JWKS) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_jwks", New: func() caddy.Module { return new(JWKS) }}
}

// Provision finds the app.
func (h *JWKS) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx, "card_jwks", h)
	if err != nil {
		return err
	}
	h.published, h.unjudged = &app.published, app.Unjudged()
	return nil
}

func (h *JWKS) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return h.unjudged.Refuse(w, r, auth.Refuse(auth.MethodNotAllowed, "card_jwks answers GET and HEAD"))
	}
	set := h.published.set()
	sum := sha256.Sum256(set)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	header := w.Header()
	header.Set("Cache-Control", "public, max-age="+strconv.Itoa(maxAgeJWKS))
	header.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	header.Set("Content-Type", "application/jwk-set+json")
	header.Set("Content-Length", strconv.Itoa(len(set)))
	_, _ = w.Write(set) // an error means that the client has left
	return nil
}

// UnmarshalCaddyfile reads `card_jwks`.
func (*JWKS) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return directive.Handler(d, "card_jwks", nil)
}
