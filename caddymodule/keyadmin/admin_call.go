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

// A Gateway is what the admin API needs of the app card_gateway.
type Gateway interface {
	// Keys returns the service of the keys; nil before the app is provisioned.
	Keys() *keys.Service
	// AdminTokens returns the tokens that open the admin API; nil: none does.
	AdminTokens() *Tokens
	// BodyMemory reports the memory for request bodies.
	BodyMemory() BodyMemory
	// AuditCall writes a line of the audit record for a call that never reached the
	// service of the keys.
	AuditCall(change keys.Change)
	// OpenStore returns the backend of an option store, in JSON, to copy from.
	OpenStore(option json.RawMessage) (store.Backend, error)
	// Drain makes /readyz answer 503 while requests are served; Undrain ends it. If
	// it has not ended at a time, it counts as forgotten; the zero time is the past.
	Drain(until time.Time)
	Undrain()
	// LogEachRequest makes the log have a line for each request until a time; the
	// zero time ends it.
	LogEachRequest(until time.Time)
	// State returns the state of the running gateway.
	State(ctx context.Context) State
	// LoadRefused writes a line of the audit record for a configuration that was
	// refused.
	LoadRefused(err error)
	// Refusal returns what is remembered of the refusal with the request id.
	Refusal(requestID string) (Refusal, bool)
	// Refusals returns the newest remembered refusals of a key, at most limit, the
	// newest first; of all keys and of none for the empty id.
	Refusals(keyID string, limit int) []Refusal
	// KeyLimits returns the buckets of a key as they are now, and
	// [store.ErrNotFound] for a key that does not exist.
	KeyLimits(ctx context.Context, keyID string) ([]Limit, error)
	// JWKSet returns the public keys of assertions, as JSON.
	JWKSet() []byte
}

// BodyMemory is the memory that request bodies hold, in bytes, and the keys that
// hold most of it.
type BodyMemory struct {
	Bytes   int64        `json:"bytes"`
	Limit   int64        `json:"limit"`
	Holders []BodyHolder `json:"holders"` // at most ten, the largest first
}

// A BodyHolder is a key whose requests hold memory for their bodies.
type BodyHolder struct {
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
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
	gateway Gateway
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
