package caddymodule

import (
	"context"
	"errors"
	"net/http"

	"github.com/card-gateway/card-gateway/auth"
)

// finish gives the error of a later handler its face, unless an answer is on
// its way already. That no handler has answered is one, too: net/http would say
// 200.
func (p *passage) finish(r *http.Request, err error) error {
	switch {
	case err != nil:
	case p.w.status == 0:
		return refuse(p.w, p.r, auth.Refuse(auth.UpstreamError, "no handler behind card_auth has answered"))
	case p.w.status == auth.ClientGone.Status() && p.r.Context().Err() != nil:
		p.note(auth.Refuse(auth.ClientGone, "")) // the reverse proxy has said so
		return nil
	default:
		return nil
	}
	refusal := refusalOf(err)
	if cause := context.Cause(r.Context()); errors.Is(cause, errSentOnce) {
		refusal = &auth.Refusal{Reason: auth.UpstreamError, Cause: cause}
	}
	if p.w.status != 0 {
		p.note(refusal)
		return err
	}
	return refuse(p.w, p.r, refusal)
}

// broken says why a handler has panicked. Caddy's reverse proxy does when an
// answer breaks off half-way, so that the client notices.
func (p *passage) broken(panicked any) {
	switch {
	case p.info.refusal != nil:
	case panicked != http.ErrAbortHandler:
		p.note(auth.Refuse(auth.InternalError, "a handler has panicked"))
	case p.w.failed || p.r.Context().Err() != nil:
		p.note(auth.Refuse(auth.ClientGone, "while the answer was sent"))
	default:
		p.note(auth.Refuse(auth.UpstreamError, "the answer broke off half-way"))
	}
}

// pass decides, in a dry run, whether a refused request goes on all the same.
// It returns nil when it does, with the body read and the refusal noted.
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
	p.info.logRefusal(refusal)
	return nil
}

// generic replaces the texts of rules 2 to 10 where the site wants one.
func (p *passage) generic(refusal *auth.Refusal) *auth.Refusal {
	if p.site.GenericMessages && refusal.Reason.Status() == http.StatusUnauthorized && refusal.Reason != auth.MissingHeaders {
		refusal.Message = genericMessage
	}
	return refusal
}

// genericMessage is the one text of generic_messages.
const genericMessage = "Authentication failed"

// tellClient writes the client's address, as Caddy chose it, into the header to
// which Caddy's reverse proxy appends that of a trusted proxy. What client and
// proxies wrote there has been removed.
func (p *passage) tellClient() {
	const name = "X-Forwarded-For"
	if _, passed := p.r.Header[name]; passed || !fromProxy(p.r) {
		return
	}
	if text, addr := clientAddress(p.r); addr.IsValid() {
		p.r.Header[name] = []string{text}
	}
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

// setIdentity tells the upstream who sent the request.
func setIdentity(h http.Header, info *requestInfo) {
	h.Set(headerIDKey, info.Key.ID)
	h.Set(headerTenant, info.Key.Tenant)
	h.Set(headerScopes, info.Key.Scopes.String())
	h.Set(headerOperation, info.Operation.Name)
}
