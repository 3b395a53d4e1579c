package caddymodule

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/card-gateway/card-gateway/keys"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// A passage is the way of one request through card_auth: target, judge, body,
// settle. It carries what one step leaves for the next.
type passage struct {
	info   requestInfo
	h      *Auth
	w      *responseWriter
	r      *http.Request
	limits *RateLimit

	request   auth.Request
	judgement auth.Judgement
	claim     store.Claim
	charges   [ratelimit.MaxCharges]ratelimit.Charge
	waited    time.Duration // for the body

	bodyRead    bool
	bodyDropped bool // it was not worth holding
	bodySum     [sha256.Size]byte
	bodySize    int64
}

// judgings is how often a request is judged before the gateway gives up
// because its key is changed under it again and again.
const judgings = 3

var errKeyKeepsChanging = errors.New("the key was changed each time that the request was judged")

// admit takes the request through all checks, in the published order. It
// returns nil for a request that may go on.
func (p *passage) admit() *auth.Refusal {
	var client netip.Addr
	p.info.Client, client = clientAddress(p.r)
	if p.r.TLS != nil && !p.r.TLS.HandshakeComplete {
		client = netip.Addr{} // early data over QUIC: anybody can write any address on it
	}
	p.info.address = client
	unreadable := checkForwarded(p.h.server, p.r)
	method, raw := originalTarget(p.r)
	credentials, missing := auth.ParseCredentials(p.r.Header)
	if missing != nil {
		p.request.Credentials.KeyID = p.r.Header.Get(auth.HeaderKeyID)
	}
	p.info.aside = p.h.HeaderRule.clean(p.r.Header)
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
	if p.info.Operation, refusal = p.h.rules.table.Match(method, target.Path); refusal != nil {
		return refusal
	}
	if missing != nil {
		return missing
	}
	p.request = auth.Request{Method: method, Target: raw, Credentials: credentials, Client: client, Scope: p.info.Operation.Scope}
	if err := p.h.state.ensureStarted(context.WithoutCancel(p.r.Context())); err != nil {
		return storeRefusal(err)
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

// answersUnread reports whether the answer is known before the body. With
// generic_messages that holds for a bad signature too: an answer by the size or
// the type of the body, or 100 Continue, would tell a live key from an unknown
// one, which is answered before them.
func (p *passage) answersUnread() bool {
	failed := p.judgement.Failed
	return failed.Has(auth.RuleIP|auth.RuleTimestamp) || p.h.GenericMessages && !p.h.DryRun && failed.Has(auth.RuleSignature)
}

// judge finds the key and says which of the rules fail that need neither the
// body nor shared state. It returns the refusal by rules 2 to 4. What rests on
// the record as we remember it is confirmed with a fresh read first.
func (p *passage) judge() *auth.Refusal {
	if refusal := p.judgeKey(p.h.state.keys.Lookup); refusal != nil {
		return refusal
	}
	if p.info.Key != nil && p.judgement.Failed.Has(auth.RuleEnabled|auth.RuleExpiry|auth.RuleSignature|auth.RuleScope) {
		return p.judgeFresh()
	}
	return p.firstRules()
}

// judgeFresh is judge by the record as it is stored now.
func (p *passage) judgeFresh() *auth.Refusal {
	if refusal := p.judgeKey(p.h.state.keys.Fresh); refusal != nil {
		return refusal
	}
	return p.firstRules()
}

// judgeKey judges by the key that find returns. The refusal says that the key
// could not be read.
func (p *passage) judgeKey(find func(context.Context, string) (*auth.Key, error)) *auth.Refusal {
	key, err := find(p.r.Context(), p.request.Credentials.KeyID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return p.lookupRefusal(err)
	}
	now := time.Now()
	p.judgement, p.info.Key = auth.Judge(&p.request, key, p.h.rules.window, now), key
	if key != nil && !p.judgement.Failed.Has(auth.RuleSignature) && p.request.Credentials.Unix > 0 {
		p.info.skew = now.Sub(time.Unix(p.request.Credentials.Unix, 0))
	}
	return nil
}

// firstRules returns the refusal by rules 2 to 4, or nil.
func (p *passage) firstRules() *auth.Refusal {
	if first := p.judgement.Failed & (auth.RuleKnown | auth.RuleEnabled | auth.RuleExpiry); first != 0 {
		return &auth.Refusal{Reason: first.First()}
	}
	return nil
}

// lookupRefusal says why a key could not be read. The client may have hung up
// meanwhile, which is no failure of the store.
func (p *passage) lookupRefusal(err error) *auth.Refusal {
	switch {
	case errors.Is(p.r.Context().Err(), context.Canceled):
		return &auth.Refusal{Reason: auth.ClientGone, Cause: err}
	case errors.Is(err, keys.ErrLookupBudget):
		return &auth.Refusal{Reason: auth.OverBudget, RetryAfter: time.Second, Cause: err}
	default:
		return storeRefusal(err)
	}
}
