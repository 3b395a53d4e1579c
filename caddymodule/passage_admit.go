package caddymodule

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
)

// judgings is how often a request is judged. If its key was changed each time
// meanwhile, the gateway gives up with 503.
const judgings = 3

// admit takes the request through all checks, in the published order. It
// returns nil for a request that may be forwarded.
func (p *passage) admit() *auth.Refusal {
	var client netip.Addr
	p.info.Client, client = clientAddress(p.r)
	if p.r.TLS != nil && !p.r.TLS.HandshakeComplete {
		client = netip.Addr{} // early data over QUIC: its sender can forge the address
	}
	p.info.address = client
	unreadable := checkForwarded(p.site.server, p.r)
	if unreadable == nil {
		unreadable = checkHost(p.r)
	}
	if unreadable == nil {
		unreadable = checkFields(p.r)
	}
	method, raw := originalTarget(p.r)
	credentials, missing := auth.ParseCredentials(p.r.Header)
	if missing != nil {
		p.request.Credentials.KeyID = p.r.Header.Get(auth.HeaderKeyID)
	}
	p.info.aside = p.site.HeaderRule.clean(p.r.Header)
	target, refusal := auth.ParseTarget(raw)
	if refusal != nil {
		return refusal
	}
	p.info.Target = target
	if unreadable != nil {
		return unreadable
	}
	if refusal := auth.CheckMethod(method); refusal != nil {
		return refusal
	}
	var scope string
	if p.info.Operation, scope, refusal = p.site.operation(method, target.Path); refusal != nil {
		return refusal
	}
	if missing != nil {
		return missing
	}
	p.request = auth.Request{Method: method, Target: raw, Credentials: credentials, Client: client, Scope: scope}
	if state := p.site.state; !state.started.Load() {
		if err := state.ensureStarted(context.WithoutCancel(p.r.Context())); err != nil {
			return storeRefusal(err)
		}
	}
	return p.judgeAndSettle()
}

func (p *passage) judgeAndSettle() *auth.Refusal {
	judge := p.judge
	for range judgings {
		if refusal := judge(); refusal != nil {
			return refusal
		}
		judge = p.judgeFresh
		if !p.answersUnread() {
			if refusal := p.readBody(); refusal != nil {
				return refusal
			}
		}
		verdict, refusal := p.settle()
		if refusal != nil {
			return refusal
		}
		if !verdict.Stale {
			return p.judged(&verdict)
		}
	}
	return storeRefusal(errKeyKeepsChanging)
}

// answersUnread reports whether the answer is known before the body is read.
// With generic_messages that is so for a wrong signature too. An unknown key is
// answered before the body, so an answer that depends on the body's size or
// type, or 100 Continue, would show that the key exists.
func (p *passage) answersUnread() bool {
	failed := p.judgement.Failed
	return failed.Has(auth.RuleIP|auth.RuleTimestamp) || p.site.GenericMessages && !p.site.DryRun && failed.Has(auth.RuleSignature)
}

// originalTarget returns the method and the request target as the client sent
// them, before any handler rewrote them.
func originalTarget(r *http.Request) (method, target string) {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.Method, original.RequestURI
	}
	return r.Method, r.RequestURI
}
