package caddymodule

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/assertion"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/secret"
)

// AssertOptions let the issuer verify by itself who sent a request, and that
// method, target and body are those that the gateway has forwarded.
type AssertOptions struct {
	// How assertions are signed: `EdDSA`, so that issuers hold public keys only,
	// or `HS256`, which is cheaper, but whoever can verify it can also sign.
	// Default: EdDSA.
	Algorithm string `json:"algorithm,omitempty"`

	// Where to find the key: 32 bytes in base64, one per line. The first signs.
	// The public keys of all lines are published, so that a key can be published
	// before it signs. Required.
	Key *secret.Ref `json:"key,omitempty"`

	// The claim iss. Default: card-gateway.
	Issuer string `json:"issuer,omitempty"`

	// The claim aud: the name of the issuer's service, which refuses assertions
	// for others. Required.
	Audience string `json:"audience,omitempty"`
}

// defaultAssertIssuer is the default of the option issuer.
const defaultAssertIssuer = "card-gateway"

// Errors of options that are missing.
var (
	errNoAssertKey = errors.New("assert needs a key; make one with `openssl rand -base64 32` and name it: key file PATH, or key env NAME")
	errNoAudience  = errors.New("assert needs an audience: the name of the issuer's service")
)

// signer returns the signer that the options describe. The error names the
// option, and for a key the place and the line.
func (o *AssertOptions) signer() (*assertion.Signer, error) {
	algorithm, err := assertion.ParseAlgorithm(o.Algorithm)
	if err != nil {
		return nil, err
	}
	if o.Key == nil {
		return nil, errNoAssertKey
	}
	if o.Audience == "" {
		return nil, errNoAudience
	}
	text, err := o.Key.Read()
	if err != nil {
		return nil, fmt.Errorf("reading key: %w", err)
	}
	keys, err := assertion.ParseKeys(algorithm, text)
	if err != nil {
		return nil, fmt.Errorf("key from %s: %w", o.Key, err)
	}
	if o.Issuer == "" {
		o.Issuer = defaultAssertIssuer
	}
	return assertion.NewSigner(assertion.Options{Issuer: o.Issuer, Audience: o.Audience, Keys: keys})
}

// publishedKeys are the public keys of all handlers card_auth of a
// configuration, as a JWK set.
type publishedKeys struct {
	mu   sync.Mutex
	keys []*assertion.Key
}

func (p *publishedKeys) add(keys []*assertion.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, keys...)
}

// set returns the JWK set.
func (p *publishedKeys) set() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return assertion.JWKSet(p.keys)
}

// readAssert reads the block assert of card_auth.
func (h *Auth) readAssert(d *caddyfile.Dispenser) error {
	if err := directive.NoMore(d); err != nil {
		return err
	}
	where := directive.At(d)
	o := new(AssertOptions)
	h.Assert = o
	err := directive.Block(d, "assert", []directive.Option{
		{Name: "algorithm", Read: func(d *caddyfile.Dispenser) (err error) {
			if o.Algorithm, err = directive.OneArg(d, "EdDSA or HS256"); err != nil {
				return err
			}
			if _, err := assertion.ParseAlgorithm(o.Algorithm); err != nil {
				return d.WrapErr(err)
			}
			return nil
		}},
		{Name: "key", Instead: "several keys are several lines of one file or variable", Read: func(d *caddyfile.Dispenser) (err error) {
			if o.Key, err = directive.Secret(d); err != nil {
				return err
			}
			return directive.NoMore(d)
		}},
		directive.Text("issuer", "a name", &o.Issuer),
		directive.Text("audience", "the name of the issuer's service", &o.Audience),
	})
	switch {
	case err != nil:
		return err
	case o.Key == nil:
		return where(errNoAssertKey)
	case o.Audience == "":
		return where(errNoAudience)
	default:
		return nil
	}
}

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
	header.Set("Content-Type", "application/jwk-set+json")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(set)) // it reads If-None-Match
	return nil
}

// UnmarshalCaddyfile reads `card_jwks`.
func (*JWKS) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return directive.Handler(d, "card_jwks", nil)
}
