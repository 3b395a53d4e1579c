// Package self is the handler card_self, which answers the holder of a key what the key
// is and may do, and makes it a new secret.
//
// Begin with [Self].
package self

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/gate"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/store"
)

// Self is the handler card_self. It answers requests of the holder of a key to the
// gateway itself. They are signed, judged and limited like all others, and never
// reach an issuer:
//
//   - GET /gateway/v1/key: what the key is and may do, and what is left of its
//     limits;
//   - POST /gateway/v1/echo: what was signed, and what the gateway read;
//   - POST /gateway/v1/key/rotate: a new secret, if Rotate allows it;
//   - POST /gateway/v1/nonce/close: a nonce that no request can use any more.
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
	unjudged request.Unjudged
}

// CaddyModule returns the Caddy module information.
func (*Self) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_self", New: func() caddy.Module { return new(Self) }}
}

// Provision finds the app and sets the default.
func (h *Self) Provision(ctx caddy.Context) error {
	joined, err := request.Join(ctx, "card_self", h)
	if err != nil {
		return err
	}
	app, ok := joined.(app)
	if !ok {
		return fmt.Errorf("card_self: the app card_gateway is a %T", joined)
	}
	h.Overlap = cmp.Or(h.Overlap, caddy.Duration(keys.DefaultOverlap))
	h.unjudged = app.Unjudged()
	h.answers = selfAnswers{app: app, rotates: h.Rotate, overlap: time.Duration(h.Overlap)}
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
	info := request.From(r.Context())
	if info == nil {
		return h.unjudged.Misplaced(w, r, "card_self")
	}
	data, err := h.answer(r, info)
	if err != nil {
		return selfRefusal(info, err)
	}
	return writeSelf(w, info, data)
}

// answer returns the answer of the request's operation. In a dry run it refuses
// what card_auth would have refused, because there is no issuer to forward it to.
func (h *Self) answer(r *http.Request, info *request.Info) (any, error) {
	switch {
	case info.Own != nil:
	case info.DryRun != nil:
		refusal := *info.DryRun
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
	case auth.CloseOperation: // its nonce is spent, as that of every accepted request
		return closedView{Nonce: info.Own.Credentials.Nonce, Closed: true}, nil
	default:
		return nil, auth.Refuse(auth.InternalError, "card_self does not know the operation")
	}
}

// selfRefusal returns the refusal for an error of an answer.
func selfRefusal(info *request.Info, err error) error {
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
		return gate.StoreRefusal(err)
	}
}

// rotationMessage returns the text for the client.
func rotationMessage(err error) string {
	if errors.Is(err, keys.ErrOldSecret) {
		return "Rotate with the newest secret of the key; this request was signed with an older one"
	}
	return "The key has two live secrets already; rotate again when the older one has ended"
}

// Interface guard
var _ caddy.Validator = (*Self)(nil)

// A app is the app, as card_self needs it.
type app interface {
	request.App
	// Keys returns the keys in the store.
	Keys() *keys.Service
	// Levels returns what is left at now of the buckets that the requests of a key are
	// charged to. It charges nothing.
	Levels(ctx context.Context, key *auth.Key, now time.Time) (gate.Buckets, []adminapi.Limit, error)
}

// selfAnswers makes what card_self answers.
type selfAnswers struct {
	app     app
	rotates bool          // the holder of a key may rotate its secret
	overlap time.Duration // of the replaced secret
}

// A selfEnvelope is the published response envelope around an answer of the
// gateway itself.
type selfEnvelope struct {
	Data      any       `json:"data"`
	RequestID string    `json:"request_id"`
	Timestamp time.Time `json:"timestamp"`
}

// writeSelf answers with the data. No cache may keep it.
func writeSelf(w http.ResponseWriter, info *request.Info, data any) error {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	envelope := selfEnvelope{Data: data, RequestID: info.RequestID, Timestamp: time.Now().UTC().Truncate(time.Millisecond)}
	if err := encoder.Encode(envelope); err != nil {
		return &auth.Refusal{Reason: auth.InternalError, Cause: err}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(body.Bytes())
	return err
}

// A keyView is a key as its holder sees it.
type keyView struct {
	ID              string          `json:"id"`
	Tenant          string          `json:"tenant"`
	Mode            keyid.Mode      `json:"mode"`
	Scopes          []string        `json:"scopes"`
	CustomerVariant *string         `json:"customer_variant"` // null: none
	ExpiresAt       *time.Time      `json:"expires_at"`       // null: never
	DebugUntil      *time.Time      `json:"debug_until"`      // null: not set
	Operations      []operationView `json:"operations"`       // that the key may call
	Total           *adminapi.Limit `json:"total"`            // all operations together; null: not limited
	Secrets         []secretView    `json:"secrets"`          // live ones, the newest first
}

// An operationView is what a key may call of an operation with one of its
// scopes. An operation whose routes need several scopes has one view for each
// that the key has, and all of them show the one limit of the operation.
type operationView struct {
	Name   string         `json:"name"`
	Routes []string       `json:"routes"` // "GET /api/v1/cards/{cardId}"; none: what no operation names
	Scope  *string        `json:"scope"`  // null: none is needed
	Limit  adminapi.Limit `json:"limit"`
}

// A secretView is a live secret.
type secretView struct {
	keys.SecretView
	AgeSeconds int64 `json:"age_seconds"`
	// SignedThis: the request was signed with this secret.
	SignedThis bool `json:"signed_this"`
}

// describeKey returns the key of the request as it is stored now.
func (a *selfAnswers) describeKey(ctx context.Context, info *request.Info) (*keyView, error) {
	stored, err := a.app.Keys().Show(ctx, info.Key.ID)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	view := &keyView{
		ID: stored.ID, Tenant: stored.Tenant, Mode: stored.Mode, Scopes: stored.Scopes,
		CustomerVariant: stored.CustomerVariant, ExpiresAt: stored.ExpiresAt, DebugUntil: stored.DebugUntil,
	}
	for _, secret := range stored.Secrets {
		view.Secrets = append(view.Secrets, secretView{
			SecretView: secret, AgeSeconds: int64(now.Sub(secret.CreatedAt).Seconds()), SignedThis: secret.Version == info.Own.Secret,
		})
	}
	return view, a.describeLimits(ctx, info.Key, now, view)
}

// describeLimits adds the operations that the key may call, with what is left of
// their buckets at now.
func (a *selfAnswers) describeLimits(ctx context.Context, key *auth.Key, now time.Time, view *keyView) error {
	buckets, limits, err := a.app.Levels(ctx, key, now)
	if err != nil {
		return err
	}
	for i, operation := range buckets.Operations {
		if operation.Name == auth.RotateOperation && !a.rotates {
			continue
		}
		for _, scope := range operation.Scopes {
			if key.Scopes.Has(scope) {
				view.Operations = append(view.Operations, viewOperation(operation, scope, limits[i]))
			}
		}
	}
	if len(limits) > len(buckets.Operations) {
		view.Total = &limits[len(limits)-1]
	}
	return nil
}

// viewOperation returns the routes of the operation that need the scope.
func viewOperation(operation *auth.Operation, scope string, limit adminapi.Limit) operationView {
	view := operationView{Name: operation.Name, Routes: []string{}, Limit: limit}
	if !operation.Own {
		view.Scope = &scope
	}
	for _, route := range operation.Routes {
		if route.Scope == scope {
			view.Routes = append(view.Routes, route.Method+" "+route.Pattern)
		}
	}
	return view
}

// A requestView is an accepted request as the gateway read it.
type requestView struct {
	Operation     string           `json:"operation"`
	KeyID         string           `json:"key_id"`
	SecretVersion int              `json:"secret_version"` // of the secret that signed it
	StringToSign  string           `json:"string_to_sign"`
	BodyBytes     int64            `json:"body_bytes"`
	BodyHash      string           `json:"body_hash"`
	ClientIP      string           `json:"client_ip"`
	ClockSkew     float64          `json:"clock_skew_seconds"` // the gateway's clock minus X-Timestamp
	Limits        []adminapi.Limit `json:"limits"`             // the buckets that it was charged to
}

// describeRequest returns the request as it was judged.
func describeRequest(r *http.Request, info *request.Info) *requestView {
	own := info.Own
	c := &own.Credentials
	view := &requestView{
		Operation: info.Operation.Name, KeyID: info.Key.ID, SecretVersion: own.Secret,
		StringToSign: string(auth.AppendStringToSign(nil, own.Method, own.Target, c.Timestamp, c.Nonce, c.BodyHash)),
		BodyBytes:    r.ContentLength, BodyHash: c.BodyHash,
		ClientIP: info.Client, ClockSkew: info.Skew.Seconds(), Limits: []adminapi.Limit{},
	}
	for i := range own.Limits {
		view.Limits = append(view.Limits, adminapi.NewLimit(&own.Limits[i], ""))
	}
	return view
}

// A closedView tells a client that no request with the nonce was accepted before this one,
// and none will be.
type closedView struct {
	Nonce  string `json:"nonce"`
	Closed bool   `json:"closed"`
}

// A rotationView is the new secret of a key, shown this once.
type rotationView struct {
	Secret  string            `json:"secret"`
	Secrets []keys.SecretView `json:"secrets"` // live ones, the newest first
}

// rotate makes a new secret for the key of the request.
func (a *selfAnswers) rotate(r *http.Request, info *request.Info) (*rotationView, error) {
	switch {
	case !a.rotates:
		return nil, &auth.Refusal{
			Reason: auth.NotFound, Message: "This gateway does not let key holders rotate secrets; ask its operator",
			Log: "card_self has no rotate yes",
		}
	case r.ContentLength > 0:
		return nil, &auth.Refusal{Reason: auth.InvalidBody, Message: "A rotation takes no body", Log: "a rotation with a body"}
	}
	// A client that leaves does not stop a change half-way.
	changed, err := a.app.Keys().RotateByHolder(context.WithoutCancel(r.Context()), info.Key.ID, info.Own.Secret, a.overlap)
	if err != nil {
		return nil, err
	}
	return &rotationView{Secret: changed.Secret, Secrets: changed.Secrets}, nil
}

// UnmarshalCaddyfile reads:
//
//	card_self {
//	    rotate no|yes [overlap <time span>]
//	}
func (h *Self) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return directive.Handler(d, "card_self", []directive.Option{{Name: "rotate", Read: func(d *caddyfile.Dispenser) error {
		const form = "expected: rotate no, or rotate yes [overlap <time span>]"
		words := d.RemainingArgs()
		switch {
		case len(words) == 1 && words[0] == "no":
		case len(words) == 1 && words[0] == "yes":
			h.Rotate = true
		case len(words) == 3 && words[0] == "yes" && words[1] == "overlap":
			overlap, err := caddy.ParseDuration(words[2])
			if err != nil {
				return d.Errf("overlap: %q is not a time span such as 24h", words[2])
			}
			if err := checkOverlap(overlap); err != nil {
				return d.WrapErr(err)
			}
			h.Rotate, h.Overlap = true, caddy.Duration(overlap)
		default:
			return d.Err(form)
		}
		return nil
	}}})
}
