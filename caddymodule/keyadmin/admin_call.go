package keyadmin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/keys"
)

// A Gateway is what the admin API needs of the app card_gateway.
type Gateway interface {
	// Keys returns the service of the keys; nil before the app is provisioned.
	Keys() *keys.Service
	// BodyMemory reports the memory for request bodies.
	BodyMemory() BodyMemory
	// Refusal returns what is remembered of the refusal with the request id.
	Refusal(requestID string) (Refusal, bool)
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
	by      keys.By
}

// actorOf returns the actor for the audit log: the actor header, else the remote
// address.
func actorOf(r *http.Request) string {
	actor := r.Header.Get(actorHeader)
	if actor == "" || len(actor) > maxActor || strings.ContainsFunc(actor, unicode.IsControl) {
		return "admin API " + r.RemoteAddr
	}
	return actor
}

// body reads the request's body. The error for a body of more than maxAdminBody
// bytes has the status 413.
func (c *adminCall) body() ([]byte, error) {
	doc, err := io.ReadAll(c.r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, caddy.APIError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: err, Message: fmt.Sprintf("the request body is over %d bytes", tooLarge.Limit)}
	case err != nil:
		return nil, caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf("reading the request body: %w", err)}
	}
	return doc, nil
}

func (c *adminCall) decode(into any) error {
	doc, err := c.body()
	if err != nil {
		return err
	}
	return keys.Decode(doc, into)
}
