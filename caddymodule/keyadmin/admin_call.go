package keyadmin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// A Gateway is the running gateway, as the admin API uses it.
type Gateway struct {
	Keys *keys.Service
	// Tokens open the admin API; nil: none does.
	Tokens *Tokens
	// State returns the state of the gateway.
	State func(context.Context) State
	// AuditCall writes a line of the audit record for a call that never reached the
	// service of the keys.
	AuditCall func(keys.Change)
	// LoadRefused writes a line of the audit record for a configuration that was
	// refused.
	LoadRefused func(error)
	// OpenStore returns the backend of an option store, in JSON, to copy from.
	OpenStore func(option json.RawMessage) (store.Backend, error)
	// Drain makes /readyz answer 503 while requests are served; nil ends it. If it
	// has not ended at the time, it counts as forgotten; the zero time is the past.
	Drain func(until *time.Time)
	// LogEachRequest makes the log have a line for each request until a time; the
	// zero time ends it.
	LogEachRequest func(until time.Time)
	// Refusal returns what is remembered of the refusal with the request id.
	Refusal func(requestID string) (Refusal, bool)
	// Refusals returns the newest remembered refusals of a key, at most limit, the
	// newest first; of all keys and of none for the empty id.
	Refusals func(keyID string, limit int) []Refusal
	// KeyLimits returns the buckets of a key as they are now, and
	// [store.ErrNotFound] for a key that does not exist.
	KeyLimits func(ctx context.Context, keyID string) ([]Limit, error)
	// JWKSet returns the public keys of assertions, as JSON.
	JWKSet func() []byte
}

const (
	actorHeader   = "X-Card-Gateway-Actor"
	maxActor      = 128
	maxAdminBody  = 256 << 10
	defaultListed = 100
)

// An adminCall is one request to the key API.
type adminCall struct {
	context.Context
	gateway *Gateway
	keys    *keys.Service
	r       *http.Request
	id      string // of the key in the path
	action  string // as in the audit record
	who     caller
	by      keys.By
}

// claimed returns who the caller claims to be: the header X-Card-Gateway-Actor, at
// most maxActor bytes of it.
func claimed(r *http.Request) string {
	text := r.Header.Get(actorHeader)
	return strings.ToValidUTF8(text[:min(len(text), maxActor)], "")
}

// body reads the request's body. The error for a body of more than maxAdminBody
// bytes has the status 413.
func (c *adminCall) body() ([]byte, error) {
	doc, err := io.ReadAll(c.r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, unasked{caddy.APIError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: err, Message: fmt.Sprintf("the request body is over %d bytes", tooLarge.Limit)}}
	case err != nil:
		return nil, unasked{caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf("reading the request body: %w", err)}}
	}
	return doc, nil
}

// decode reads the request's body, which must be an object.
func (c *adminCall) decode(into any) error {
	doc, err := c.body()
	if err != nil {
		return err
	}
	if err := keys.Decode(doc, into); err != nil {
		return unasked{err}
	}
	return nil
}

// decodeAny reads the request's body, if it has one.
func (c *adminCall) decodeAny(into any) error {
	doc, err := c.body()
	if err != nil || len(doc) == 0 {
		return err
	}
	if err := keys.Decode(doc, into); err != nil {
		return unasked{err}
	}
	return nil
}

// unasked is the error of a call that was refused before the service of the keys
// was asked. The service reports all others to the audit record itself.
type unasked struct{ cause error }

// Error returns the text of the cause.
func (u unasked) Error() string { return u.cause.Error() }

// Unwrap returns the cause.
func (u unasked) Unwrap() error { return u.cause }
