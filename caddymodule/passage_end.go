package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
)

// answer calls the later handlers. They panic when the issuer breaks off half-way,
// so that the client is cut off too. While the answer is held to be signed, nothing
// of it was sent, and the client can still get a refusal.
func (p *passage) answer(next caddyhttp.Handler, r *http.Request) (err error) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		if reason != http.ErrAbortHandler || !p.w.signs.isHeld() || p.r.Context().Err() != nil {
			panic(reason)
		}
		err = auth.Refuse(auth.UpstreamError, cutOff)
	}()
	return next.ServeHTTP(&p.w, r)
}

// finish turns the error of a later handler into an answer, unless an answer
// was already begun. If no handler has answered, that is an error too: net/http
// would answer 200.
func (p *passage) finish(r *http.Request, err error) error {
	switch {
	case err != nil:
	case p.w.status == 0:
		return refuse(&p.w, p.r, auth.Refuse(auth.UpstreamError, "no handler behind card_auth has answered"))
	case p.w.status == auth.ClientGone.Status() && p.r.Context().Err() != nil:
		p.note(auth.Refuse(auth.ClientGone, "")) // reported by the reverse proxy
		return nil
	default:
		return nil
	}
	refusal := refusalOf(err)
	if cause := context.Cause(r.Context()); errors.Is(cause, errSentOnce) {
		refusal = &auth.Refusal{Reason: auth.UpstreamError, Cause: cause}
	}
	if p.w.status != 0 && !p.w.takeBack() {
		p.note(refusal)
		return err
	}
	return refuse(&p.w, p.r, refusal)
}

// cutOff says that an issuer's answer is not whole.
const cutOff = "the answer broke off half-way"

// broken notes why a handler has panicked. Caddy's reverse proxy panics when an
// answer breaks off half-way, so that the client notices.
func (p *passage) broken(panicked any) {
	switch {
	case p.info.refusal != nil:
	case panicked != http.ErrAbortHandler:
		p.note(auth.Refuse(auth.InternalError, "a handler has panicked"))
	case p.w.failed || p.r.Context().Err() != nil:
		p.note(auth.Refuse(auth.ClientGone, "while the answer was sent"))
	default:
		p.note(auth.Refuse(auth.UpstreamError, cutOff))
	}
}

// pass returns nil if a dry run forwards the refused request. Then it has read
// the body and noted the refusal. Otherwise it returns the refusal to send.
func (p *passage) pass(refusal *auth.Refusal) *auth.Refusal {
	if !p.site.DryRun || !dryRunLetsPass(refusal.Reason) || p.r.Method == http.MethodConnect {
		return p.generic(refusal)
	}
	if p.info.Operation == nil {
		p.info.Operation = p.site.other
	}
	if failed := p.readBody(); failed != nil {
		return failed
	}
	p.info.dryRun = refusal
	if now := time.Now(); p.mayExplain(refusal.Reason, now) {
		p.account(refusal, now)
	}
	p.info.logRefusal(refusal)
	return nil
}

// generic replaces the texts of rules 2 to 10 by one text, with the option
// generic_messages.
func (p *passage) generic(refusal *auth.Refusal) *auth.Refusal {
	if p.site.GenericMessages && refusal.Reason.Status() == http.StatusUnauthorized && refusal.Reason != auth.MissingHeaders {
		refusal.Message = genericMessage
	}
	return refusal
}

// genericMessage is the one text of generic_messages.
const genericMessage = "Authentication failed"

// tellClient writes the client's address, as Caddy chose it, into
// X-Forwarded-For, if a trusted proxy sent the request. The terminal handler
// appends the proxy's address. The values of client and proxies were removed
// before, unless pass_header names the header.
func (p *passage) tellClient() {
	const name = "X-Forwarded-For"
	if _, passed := p.r.Header[name]; passed || !fromProxy(p.r) {
		return
	}
	if text, addr := clientAddress(p.r); addr.IsValid() {
		p.r.Header[name] = []string{text}
	}
}

// forward changes the request into the one that the upstream gets: the held
// body, the request id, the identity headers, and the target of sensitive
// details in one spelling.
func (p *passage) forward() {
	p.info.body.forwardTo(p.r)
	p.sent.set(p.r.Header, headerRequestID, p.info.RequestID)
	p.tellClient()
	if p.identified() {
		p.setIdentity(p.r.Header)
	}
	if p.r.URL.RequestURI() != p.info.Target.Raw {
		return // a handler before card_auth has rewritten it, on purpose
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

// mayBeTranslated reports whether a card_translate may change the request, or
// refuse it, before the issuer is asked.
func (p *passage) mayBeTranslated() bool {
	return p.site.behind.translates && (translatedOperation(p.info.Operation.Name) || len(p.r.Header[headerShape]) > 0)
}

// identified reports whether the sender of the request is proved. In a dry run
// requests pass whose sender is not.
func (p *passage) identified() bool {
	return p.info.dryRun == nil || p.info.dryRun.Reason == auth.RateLimited
}

// setIdentity sets the headers that name the caller and the operation.
func (p *passage) setIdentity(h http.Header) {
	key := p.info.Key
	p.sent.set(h, headerIDKey, key.ID)
	p.sent.set(h, headerTenant, key.Tenant)
	p.sent.set(h, headerScopes, key.Scopes.String())
	p.sent.set(h, headerOperation, p.info.Operation.Name)
}
