package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

func init() {
	caddy.RegisterModule(new(Self))
}

// Self is the handler card_self. It answers requests of the holder of a key to the
// gateway itself. They are signed, judged and limited like all others, and never
// reach an issuer:
//
//   - GET /gateway/v1/key: what the key is and may do, and what is left of its
//     limits;
//   - POST /gateway/v1/echo: what was signed, and what the gateway read;
//   - POST /gateway/v1/key/rotate: a new secret, if Rotate allows it.
//
// Every key may send them, with any scopes. card_self needs a separate card_auth
// before it: if a handler that may send requests to an issuer is behind the same
// card_auth, card_self is closed.
type Self struct {
	// Whether the holder of a key may rotate its secret. Then anybody who has the newest
	// secret can make the next one. Default: false.
	Rotate bool `json:"rotate,omitempty"`

	// How long the replaced secret still lives: 1h to 90 days. Default: 24h.
	Overlap caddy.Duration `json:"overlap,omitempty"`

	answers  selfAnswers
	unjudged unjudged
}

// CaddyModule returns the Caddy module information.
func (*Self) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_self", New: func() caddy.Module { return new(Self) }}
}

// Provision finds the app and sets the default.
func (h *Self) Provision(ctx caddy.Context) error {
	app, err := appOf(ctx, "card_self", h)
	if err != nil {
		return err
	}
	if h.Overlap == 0 {
		h.Overlap = caddy.Duration(keys.DefaultOverlap)
	}
	h.unjudged = newUnjudged(app)
	h.answers = selfAnswers{rules: app.rules, state: app.state, rotates: h.Rotate, overlap: time.Duration(h.Overlap)}
	return nil
}

// Validate checks the overlap.
func (h *Self) Validate() error {
	if err := checkOverlap(time.Duration(h.Overlap)); err != nil {
		return fmt.Errorf("card_self: %w", err)
	}
	return nil
}

// leastOverlap is how long a client has to take a new secret into use, at least.
const leastOverlap = time.Hour

func checkOverlap(overlap time.Duration) error {
	if overlap < leastOverlap || overlap > keys.MaxOverlap {
		return fmt.Errorf("overlap is %s; it must be between 1h and 90d", overlap)
	}
	return nil
}

func (h *Self) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	info := infoFrom(r.Context())
	if info == nil {
		return h.unjudged.misplaced(w, r, "card_self")
	}
	data, err := h.answer(r, info)
	if err != nil {
		return selfRefusal(info, err)
	}
	return writeSelf(w, info, data)
}

// answer returns the answer of the request's operation. In a dry run it refuses
// what card_auth would have refused, because there is no issuer to forward it to.
func (h *Self) answer(r *http.Request, info *requestInfo) (any, error) {
	switch {
	case info.own != nil:
	case info.dryRun != nil:
		refusal := *info.dryRun
		return nil, &refusal
	default:
		return nil, auth.Refuse(auth.NotFound, "card_self answers no request with this method and path")
	}
	switch info.Operation.Name {
	case auth.KeyOperation:
		return h.answers.describeKey(r.Context(), info)
	case auth.EchoOperation:
		return describeRequest(r, info), nil
	case auth.RotateOperation:
		return h.answers.rotate(r, info)
	default:
		return nil, auth.Refuse(auth.InternalError, "card_self does not know the operation")
	}
}

// selfRefusal returns the refusal for an error of an answer.
func selfRefusal(info *requestInfo, err error) error {
	var refusal *auth.Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, keys.ErrOldSecret), errors.Is(err, keys.ErrTwoSecrets):
		return &auth.Refusal{Reason: auth.Conflict, Message: rotationMessage(err), Log: err.Error()}
	case errors.Is(err, keys.ErrNotActive):
		if end := info.Key.ExpiresAt; !end.IsZero() && !time.Now().Before(end) {
			return auth.Refuse(auth.KeyExpired, "while it was to be rotated")
		}
		return auth.Refuse(auth.KeyDisabled, "while it was to be rotated")
	case errors.Is(err, store.ErrNotFound):
		return auth.Refuse(auth.UnknownKey, "the key was deleted while the request was answered")
	default:
		return storeRefusal(err)
	}
}

// rotationMessage returns the text for the client.
func rotationMessage(err error) string {
	if errors.Is(err, keys.ErrOldSecret) {
		return "Rotate with the newest secret of the key; this request was signed with an older one"
	}
	return "The key has two live secrets already; rotate again when the older one has ended"
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Self)(nil)
	_ caddy.Validator             = (*Self)(nil)
	_ caddyhttp.MiddlewareHandler = (*Self)(nil)
	_ caddyfile.Unmarshaler       = (*Self)(nil)
)
