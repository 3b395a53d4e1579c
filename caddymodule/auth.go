package caddymodule

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/assertion"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/caddymodule/settings"
	"github.com/card-gateway/card-gateway/caddymodule/translating"
	"github.com/card-gateway/card-gateway/gate"
	"github.com/card-gateway/card-gateway/headers"
)

// Auth is the handler card_auth. It forwards a request that passes all
// verification rules of the published interface and the limits, with headers
// that name its sender. It answers every other request itself.
//
// It judges the request as the client sent it, even if handlers before it have
// rewritten it.
type Auth struct {
	AuthOptions

	site site
	walk sync.Once // over what is behind this handler
}

// CaddyModule returns the Caddy module information.
func (*Auth) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_auth", New: func() caddy.Module { return new(Auth) }}
}

// Provision finds the app and sets the defaults.
func (h *Auth) Provision(ctx caddy.Context) error {
	h.MaxBody = cmp.Or(h.MaxBody, 1<<20)
	app, err := appOf(ctx, "card_auth", h)
	if err != nil {
		return err
	}
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if server != nil {
		server.RegisterConnContext(request.WithSocket)
		app.loaded.Add("server", map[string]any{"listen": server.Listen, "trusted_proxies_strict": server.TrustedProxiesStrict != 0})
	}
	h.site = site{
		AuthOptions: &h.AuthOptions, settings: app.settings, state: app.state, telemetry: app.telemetry,
		other: app.settings.Table.ByName(auth.OtherOperation), server: server,
	}
	h.BodyTimeout = cmp.Or(h.BodyTimeout, min(caddy.Duration(30*time.Second), caddy.Duration(app.settings.Window)))
	if err := checkTrustedProxies(server); err != nil {
		return err
	}
	if err := h.Rule.Prepare(); err != nil {
		return fmt.Errorf("card_auth: %w", err)
	}
	if h.Assert != nil {
		if h.site.signer, err = h.Assert.signer(); err != nil {
			return fmt.Errorf("card_auth: assert: %w", err)
		}
		app.published.add(h.site.signer.Keys())
	}
	if h.DryRun {
		app.dryRuns++
		ctx.Logger().Warn("card_auth is in dry run: every request is let through, nothing is protected")
	}
	return nil
}

// Validate checks max_body and body_timeout.
func (h *Auth) Validate() error {
	if h.MaxBody < 0 {
		return fmt.Errorf("card_auth: max_body is %d bytes; it must be positive", h.MaxBody)
	}
	if err := h.site.settings.CheckMaxBody(h.MaxBody); err != nil {
		return fmt.Errorf("card_auth: %w", err)
	}
	if h.BodyTimeout < 0 || time.Duration(h.BodyTimeout) > h.site.settings.Window {
		return fmt.Errorf("card_auth: body_timeout is %s; it must be positive and at most the window, %s", time.Duration(h.BodyTimeout), h.site.settings.Window)
	}
	return nil
}

// prepare makes the gate, once all handlers exist.
func (h *Auth) prepare() {
	h.lookBehind()
	h.site.gate = h.site.newGate()
}

// lookBehind finds out what is behind this handler, once all handlers exist.
func (h *Auth) lookBehind() {
	site := &h.site
	site.downstream = downstreamOf(site.server, h)
	for _, rule := range site.downstream.headerRules {
		h.Rule.SetAside(rule)
	}
	if site.downstream.forwardsHost {
		site.telemetry.Log.Warn(forwardedHostWarning)
	}
	if site.signer != nil && site.downstream.unasserted != "" {
		site.telemetry.Log.Error(site.downstream.unasserted)
	}
	if site.downstream.self && !site.downstream.answersOwn {
		site.telemetry.Log.Warn(sharedSelfWarning)
	}
}

// newGate returns the gate of a site whose downstream is known.
func (s *site) newGate() *gate.Gate {
	r := s.settings
	return &gate.Gate{
		Keys: s.state.keys, Table: r.Table, AnswersOwn: s.downstream.answersOwn, Other: s.other, Start: s.state.ensureStarted, NextRevision: s.state.lockRevision,
		Untyped: func(request *http.Request, operation *auth.Operation) *auth.Refusal {
			if !s.downstream.translates || !translating.TranslatedOperation(operation.Name) {
				return nil
			}
			fault := translating.TypeFault(request)
			if fault == nil {
				return nil
			}
			return &auth.Refusal{Reason: auth.UnsupportedMediaType, Log: fault[0].Message, Details: fault}
		},
		Limits: r.Limits, Window: r.Window, FloorAhead: r.FloorAhead,
		LockAfter: r.LockAfter, LockDuration: r.LockDuration, LockCounts: r.LockCounts,
		Bodies: s.state.bodies, MaxBody: s.MaxBody, BodyTimeout: time.Duration(s.BodyTimeout), PooledBodies: !s.downstream.mayRepeat && !s.downstream.proxies,
		GenericMessages: s.GenericMessages, DryRun: s.DryRun,
	}
}

func (h *Auth) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	start := time.Now()
	site := &h.site
	h.walk.Do(h.prepare)
	site.state.pooled.Acquire()
	defer site.state.pooled.Release()

	p := &passage{site: site, limits: request.LimitsOf(r.Context()), judging: judgings.Get().(*judging)}
	info := &p.info
	r = info.Begin(&site.telemetry.Reporter, r, site.server)
	info.Closes = site.state.process.Drain.SendsAway(&site.state.left, r) || info.Closes
	p.w, p.r = *request.NewWriter(w, info), r
	defer func() {
		panicked := recover()
		if panicked != nil {
			p.broken(panicked)
		}
		info.Count(site.other)
		request.TraceOutcome(info)
		if panicked != nil {
			panic(panicked)
		}
		p.free() // not after a panic, when others may not have ended
	}()

	defer func() {
		info.Body.Release()
		p.w.Drop()
		info.Answer.Release()
	}()
	err := p.serve(next, start)
	p.w.Complete()
	return err
}

// Interface guard
var _ caddy.Validator = (*Auth)(nil)

// AuthOptions are the options of card_auth.
type AuthOptions struct {
	// The largest request body in bytes, for operations without their own
	// max_body. Default: 1048576 (1 MiB).
	MaxBody int64 `json:"max_body,omitempty"`

	// How long the whole body of a request may take to arrive; at most the
	// window. Default: 30s, or the window if that is shorter.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// Answer rules 2 to 10 with one text, so that the answer does not show which
	// rule failed. Default: false, the published messages.
	GenericMessages bool `json:"generic_messages,omitempty"`

	// Judge and report, but also forward requests that would be refused, except
	// ambiguous and oversized ones. Use it only to introduce the gateway: while
	// it is on, nothing is protected. Default: false.
	DryRun bool `json:"dry_run,omitempty"`

	// Send the issuer a signed statement about each request, in
	// X-Gateway-Assertion. Default: none.
	Assert *AssertOptions `json:"assert,omitempty"`

	headers.Rule
}

// A site is the configuration of one card_auth, for all its requests.
type site struct {
	*AuthOptions
	settings  *settings.Settings
	state     *state
	telemetry *telemetry
	other     *auth.Operation
	signer    *assertion.Signer // of assertions; nil: none are sent

	server     *caddyhttp.Server // of the handler
	downstream downstream        // what follows the handler
	gate       *gate.Gate        // nil until the first request
}

// errSentOnce is the cause when a second attempt was prevented.
var errSentOnce error = cardlog.PlainError("the upstream closed the connection before it answered; the request was sent once and is not sent again")

// sendOnce returns a request that net/http, by which reverse_proxy sends, does not send
// to the upstream a second time after its head was written. Requests with a body are
// safe because they have no GetBody. Of the others net/http repeats some, such as GET or
// what has an Idempotency-Key, when a kept connection breaks; here the context is
// canceled instead, with the cause errSentOnce. net/http may take another connection all
// the same, so that one is closed before anything is written on it. HTTP/2 repeats only
// what the server has not processed, and its connections are shared: they stay open. The
// caller must call the returned function at the end.
func sendOnce(r *http.Request) (*http.Request, context.CancelFunc) {
	if r.ContentLength != 0 {
		return r, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
		GetConn: func(string) {
			if sent.Load() {
				cancel(errSentOnce)
			}
		},
		GotConn: func(info httptrace.GotConnInfo) {
			if c, isTLS := info.Conn.(*tls.Conn); sent.Load() && !(isTLS && c.ConnectionState().NegotiatedProtocol == "h2") {
				_ = info.Conn.Close()
			}
		},
	})
	return r.WithContext(ctx), func() { cancel(nil) }
}

// checkTrustedProxies refuses a server with trusted_proxies and without
// trusted_proxies_strict. There Caddy takes the left-most address of
// X-Forwarded-For. A load balancer only appends to that header, so a client
// could choose the address that whitelists check.
func checkTrustedProxies(server *caddyhttp.Server) error {
	if server == nil || server.TrustedProxiesStrict > 0 {
		return nil
	}
	switch trusts, _, known := peek.TrustedProxies(server); {
	case !known:
		return errors.New("card_auth: this version of Caddy hides whether there are trusted proxies; add the line trusted_proxies_strict to the servers block, and build the gateway with the version of Caddy that its go.mod names")
	case trusts:
		return errors.New("card_auth: trusted_proxies is set without trusted_proxies_strict, so that clients could choose the address that IP whitelists see; add the line trusted_proxies_strict to the servers block")
	default:
		return nil
	}
}

// UnmarshalCaddyfile reads:
//
//	card_auth {
//	    max_body <size>
//	    body_timeout <time span>
//	    generic_messages
//	    dry_run
//	    assert {
//	        algorithm EdDSA|HS256
//	        key env <name> | file <path>
//	        issuer <name>
//	        audience <name>
//	    }
//	    pass_header <name>...
//	    headers only <name>...
//	}
func (h *Auth) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return directive.Handler(d, "card_auth", append([]directive.Option{
		directive.Size("max_body", &h.MaxBody),
		directive.Duration("body_timeout", &h.BodyTimeout),
		directive.Flag("generic_messages", &h.GenericMessages),
		directive.Flag("dry_run", &h.DryRun),
		{Name: "assert", Read: h.readAssert},
	}, directive.Headers(&h.Rule)...))
}
