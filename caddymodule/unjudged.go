package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/held"
)

// unjudged answers requests that no card_auth has judged. It counts them under
// the operation other.
type unjudged struct {
	reporter *reporter
	other    *auth.Operation
}

func newUnjudged(to *reporter, other *auth.Operation) unjudged { return unjudged{to, other} }

// refuse answers with a refusal.
func (u *unjudged) refuse(w http.ResponseWriter, r *http.Request, refusal *auth.Refusal) error {
	held.DiscardRest(w, r)
	start, info := time.Now(), new(requestInfo)
	r = info.begin(u.reporter, r, nil)
	info.Client, _ = clientAddress(r)
	err := refuse(newResponseWriter(w, info), r, refusal)
	info.overhead = time.Since(start)
	info.count(u.other)
	traceOutcome(info)
	return err
}

// misplaced answers for a handler that needs a card_auth before it.
func (u *unjudged) misplaced(w http.ResponseWriter, r *http.Request, handler string) error {
	u.reporter.log.Error(handler + " runs where card_auth has not run before; put card_auth in front of it")
	return u.refuse(w, r, auth.Refuse(auth.InternalError, handler+" without card_auth"))
}

// An app is the app card_gateway, as its handlers find it.
type app interface {
	// Join notes a handler with its options, as they were given, for the audit
	// record. The error is for routes around the handler that cannot be meant.
	Join(handler string, options any, server *caddyhttp.Server) error
	// Unjudged returns what answers requests that no card_auth has judged.
	Unjudged() unjudged
}

var errNoApp = errors.New("there is no global option card_gateway; it says where the keys are and what is allowed")

// joinApp returns the app that a handler belongs to, after the handler has joined it.
func joinApp(ctx caddy.Context, handler string, options any) (app, error) {
	module, err := ctx.AppIfConfigured("card_gateway")
	switch {
	case errors.Is(err, caddy.ErrNotConfigured):
		return nil, fmt.Errorf("%s: %w", handler, errNoApp)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", handler, err)
	}
	found, ok := module.(app)
	if !ok {
		return nil, fmt.Errorf("%s: the app card_gateway is a %T", handler, module)
	}
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return found, found.Join(handler, options, server)
}
