package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
)

func init() {
	caddy.RegisterModule(new(Auth))
}

// Auth is the handler card_auth. It lets a request through that passes all
// verification rules of the published interface, with headers that tell the
// upstream who sent it, and answers every other one.
//
// It judges the request as it came over the wire, whatever handlers before it
// have rewritten.
type Auth struct {
	// The largest request body in bytes, where the operation says nothing
	// else. Default: 1048576 (1 MiB).
	MaxBody int64 `json:"max_body,omitempty"`

	// How long the whole body of a request may take to arrive. Default: 30s, or
	// the window if that is shorter.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// Answer rules 2 to 10 with one text, so that nobody learns which failed.
	// Default: false, the published messages.
	GenericMessages bool `json:"generic_messages,omitempty"`

	// Judge and report, but let everything pass that is not ambiguous or
	// oversized. For introducing the gateway only: while it is on, nothing is
	// protected. Default: false.
	DryRun bool `json:"dry_run,omitempty"`

	HeaderRule

	rules     *rules
	state     *state
	telemetry *telemetry
	other     *auth.Operation

	server     *caddyhttp.Server // that this handler is part of
	walk       sync.Once
	translates bool // a card_translate is behind this handler
	mayRepeat  bool // a handler is behind this one that may send a request twice
}

// CaddyModule returns the Caddy module information.
func (*Auth) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_auth", New: func() caddy.Module { return new(Auth) }}
}

// Provision finds the app and sets the defaults.
func (h *Auth) Provision(ctx caddy.Context) error {
	if h.MaxBody == 0 {
		h.MaxBody = 1 << 20
	}
	app, err := appOf(ctx, "card_auth")
	if err != nil {
		return err
	}
	h.rules, h.state, h.telemetry = app.rules, app.state, app.telemetry
	h.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if h.BodyTimeout == 0 {
		h.BodyTimeout = min(caddy.Duration(30*time.Second), caddy.Duration(h.rules.window))
	}
	if err := checkTrustedProxies(h.server); err != nil {
		return err
	}
	if err := h.HeaderRule.provision(); err != nil {
		return fmt.Errorf("card_auth: %w", err)
	}
	h.other = h.rules.table.ByName("other")
	if h.DryRun {
		ctx.Logger().Warn("card_auth is in dry run: every request is let through, nothing is protected")
	}
	return nil
}

// Validate checks the sizes.
func (h *Auth) Validate() error {
	if h.MaxBody < 0 {
		return fmt.Errorf("card_auth: max_body is %d bytes; it must be positive", h.MaxBody)
	}
	if err := h.rules.checkMaxBody(h.MaxBody); err != nil {
		return fmt.Errorf("card_auth: %w", err)
	}
	if h.BodyTimeout < 0 || time.Duration(h.BodyTimeout) > h.rules.window {
		return fmt.Errorf("card_auth: body_timeout is %s; it must be positive and at most the window, %s", time.Duration(h.BodyTimeout), h.rules.window)
	}
	return nil
}

func (h *Auth) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	start := time.Now()
	h.walk.Do(h.walkChain)
	h.state.pooled.acquire()
	defer h.state.pooled.release()

	p := &passage{h: h, limits: limitsFrom(r.Context())}
	p.info.answers = h.state.answers
	info := &p.info
	r = info.begin(h.telemetry, r)
	info.closes = h.state.drain.sendsAway(r) || info.closes
	p.w, p.r = newResponseWriter(w, info), r
	defer func() {
		panicked := recover()
		if panicked != nil {
			p.broken(panicked)
		}
		h.telemetry.metrics.observe(info, h.other)
		traceOutcome(r.Context(), info)
		if panicked != nil {
			panic(panicked)
		}
	}()

	defer func() { info.body.release() }()
	if refusal := p.admit(); refusal != nil {
		p.account(refusal)
		if refusal = p.pass(refusal); refusal != nil {
			info.overhead = time.Since(start) - p.waited
			p.answerAtOnce()
			return refuse(p.w, r, refusal)
		}
	}
	p.forward()
	info.overhead += time.Since(start) - p.waited
	info.upstream.asked = time.Now()
	if h.mayRepeat {
		hideIdempotencyKeys(r.Header)
		once, done := sendOnce(r)
		defer done()
		r = once
	}
	return p.finish(r, next.ServeHTTP(p.w, r))
}

// forward makes the request what the upstream may see.
func (p *passage) forward() {
	p.info.body.forwardTo(p.r)
	p.r.Header[headerRequestID] = []string{p.info.RequestID}
	p.tellClient()
	if p.info.dryRun == nil || p.info.dryRun.Reason == auth.RateLimited {
		setIdentity(p.r.Header, &p.info)
	}
	if p.r.URL.RequestURI() != p.info.Target.Raw {
		return // a handler before us has rewritten it, on purpose
	}
	if p.info.Operation.Name != auth.SensitiveOperation {
		return
	}
	if target := auth.UpstreamTarget(p.info.Target); target != p.info.Target.Raw {
		if url, err := p.r.URL.Parse(target); err == nil {
			p.r.URL.Path, p.r.URL.RawPath = url.Path, url.RawPath
		}
	}
}

// originalTarget returns the request target as it came over the wire, before
// any handler rewrote it.
func originalTarget(r *http.Request) (method, target string) {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.Method, original.RequestURI
	}
	return r.Method, r.RequestURI
}

var errNoApp = errors.New("there is no global option card_gateway; it says where the keys are and what is allowed")

// appOf returns the app that a handler belongs to.
func appOf(ctx caddy.Context, handler string) (*App, error) {
	module, err := ctx.AppIfConfigured("card_gateway")
	switch {
	case errors.Is(err, caddy.ErrNotConfigured):
		return nil, fmt.Errorf("%s: %w", handler, errNoApp)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", handler, err)
	}
	app, ok := module.(*App)
	if !ok {
		return nil, fmt.Errorf("%s: the app card_gateway is a %T", handler, module)
	}
	return app, nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Auth)(nil)
	_ caddy.Validator             = (*Auth)(nil)
	_ caddyhttp.MiddlewareHandler = (*Auth)(nil)
)
