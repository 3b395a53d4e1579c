package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
	"github.com/card-gateway/card-gateway/keys"
)

// selfAnswers makes what card_self answers.
type selfAnswers struct {
	rules   *rules
	state   *state
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
func writeSelf(w http.ResponseWriter, info *requestInfo, data any) error {
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
	Mode            keys.Mode       `json:"mode"`
	Scopes          []string        `json:"scopes"`
	CustomerVariant *string         `json:"customer_variant"` // null: none
	ExpiresAt       *time.Time      `json:"expires_at"`       // null: never
	DebugUntil      *time.Time      `json:"debug_until"`      // null: not set
	Operations      []operationView `json:"operations"`       // that the key may call
	Total           *keyadmin.Limit `json:"total"`            // all operations together; null: not limited
	Secrets         []secretView    `json:"secrets"`          // live ones, the newest first
}

// An operationView is what a key may call of an operation with one of its
// scopes. An operation whose routes need several scopes has one view for each
// that the key has, and all of them show the one limit of the operation.
type operationView struct {
	Name   string         `json:"name"`
	Routes []string       `json:"routes"` // "GET /api/v1/cards/{cardId}"; none: what no operation names
	Scope  *string        `json:"scope"`  // null: none is needed
	Limit  keyadmin.Limit `json:"limit"`
}

// A secretView is a live secret.
type secretView struct {
	keys.SecretView
	AgeSeconds int64 `json:"age_seconds"`
	// SignedThis: the request was signed with this secret.
	SignedThis bool `json:"signed_this"`
}

// describeKey returns the key of the request as it is stored now.
func (a *selfAnswers) describeKey(ctx context.Context, info *requestInfo) (*keyView, error) {
	stored, err := a.state.keys.Show(ctx, info.Key.ID)
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
			SecretView: secret, AgeSeconds: int64(now.Sub(secret.CreatedAt).Seconds()), SignedThis: secret.Version == info.own.secret,
		})
	}
	return view, a.describeLimits(ctx, info.Key, now, view)
}

// describeLimits adds the operations that the key may call, with what is left of
// their buckets at now.
func (a *selfAnswers) describeLimits(ctx context.Context, key *auth.Key, now time.Time, view *keyView) error {
	buckets := a.rules.bucketsOf(key, now)
	if !a.rotates {
		buckets.drop(auth.RotateOperation)
	}
	limits, err := buckets.levels(ctx, a.state.backend, now)
	if err != nil {
		return err
	}
	for i, operation := range buckets.operations {
		for _, scope := range operation.Scopes {
			if key.Scopes.Has(scope) {
				view.Operations = append(view.Operations, viewOperation(operation, scope, limits[i]))
			}
		}
	}
	if len(limits) > len(buckets.operations) {
		view.Total = &limits[len(limits)-1]
	}
	return nil
}

// viewOperation returns the routes of the operation that need the scope.
func viewOperation(operation *auth.Operation, scope string, limit keyadmin.Limit) operationView {
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
	Limits        []keyadmin.Limit `json:"limits"`             // the buckets that it was charged to
}

// describeRequest returns the request as it was judged.
func describeRequest(r *http.Request, info *requestInfo) *requestView {
	own := info.own
	c := &own.Credentials
	view := &requestView{
		Operation: info.Operation.Name, KeyID: info.Key.ID, SecretVersion: own.secret,
		StringToSign: string(auth.AppendStringToSign(nil, own.Method, own.Target, c.Timestamp, c.Nonce, c.BodyHash)),
		BodyBytes:    r.ContentLength, BodyHash: c.BodyHash,
		ClientIP: info.Client, ClockSkew: info.skew.Seconds(), Limits: []keyadmin.Limit{},
	}
	for i := range own.limits {
		view.Limits = append(view.Limits, viewLimit(&own.limits[i], ""))
	}
	return view
}

// A rotationView is the new secret of a key, shown this once.
type rotationView struct {
	Secret  string            `json:"secret"`
	Secrets []keys.SecretView `json:"secrets"` // live ones, the newest first
}

// rotate makes a new secret for the key of the request.
func (a *selfAnswers) rotate(r *http.Request, info *requestInfo) (*rotationView, error) {
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
	changed, err := a.state.keys.RotateByHolder(context.WithoutCancel(r.Context()), info.Key.ID, info.own.secret, a.overlap)
	if err != nil {
		return nil, err
	}
	return &rotationView{Secret: changed.Secret, Secrets: changed.Secrets}, nil
}
