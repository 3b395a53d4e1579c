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

// note tells operators of a refusal that the client can no longer be told of.
func (p *passage) note(refusal *auth.Refusal) {
	p.info.refusal = refusal
	p.h.telemetry.logRefusal(&p.info, refusal)
}

// pass decides, in a dry run, whether a refused request goes on all the same.
// It returns nil when it does, with the body read and the refusal noted.
func (p *passage) pass(refusal *auth.Refusal) *auth.Refusal {
	if !p.h.DryRun || !dryRunLetsPass(refusal.Reason) || p.r.Method == http.MethodConnect {
		return p.generic(refusal)
	}
	if p.info.Operation == nil {
		p.info.Operation = p.h.other
	}
	if failed := p.readBody(); failed != nil {
		return failed
	}
	p.info.dryRun = refusal
	p.h.telemetry.logRefusal(&p.info, refusal)
	return nil
}

// dryRunLetsPass reports whether a dry run only reports the reason. What is
// ambiguous or too large is refused all the same, and what makes a body
// unreadable cannot be let pass.
func dryRunLetsPass(reason auth.Reason) bool {
	switch reason {
	case auth.Accepted, auth.UnknownHost, auth.NotFound, auth.BadTarget, auth.MalformedRequest, auth.BodyTooLarge, auth.BodyTimeout, auth.OverBudget, auth.ClientGone,
		auth.InvalidBody, auth.InternalError, auth.UpstreamError, auth.UpstreamTimeout:
		return false
	default:
		return true
	}
}

// generic replaces the texts of rules 2 to 10 where the site wants one.
func (p *passage) generic(refusal *auth.Refusal) *auth.Refusal {
	if p.h.GenericMessages && refusal.Reason.Status() == http.StatusUnauthorized && refusal.Reason != auth.MissingHeaders {
		refusal.Message = genericMessage
	}
	return refusal
}

// genericMessage is the one text of generic_messages.
const genericMessage = "Authentication failed"
