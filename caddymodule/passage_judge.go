package caddymodule

import (
	"context"
	"errors"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// judge finds the key and judges the rules that need neither the body nor shared
// state. It returns the refusal by rules 2 to 4, or nil. If the cached record
// leads to a refusal, judge reads the record again and judges anew.
func (p *passage) judge() *auth.Refusal {
	if refusal := p.judgeKey(p.site.state.keys.Lookup); refusal != nil {
		return refusal
	}
	if p.info.Key != nil && p.judgement.Failed.Has(auth.RuleEnabled|auth.RuleExpiry|auth.RuleSignature|auth.RuleScope) {
		return p.judgeFresh()
	}
	return p.firstRules()
}

// judgeFresh is judge with the record as it is in the store now.
func (p *passage) judgeFresh() *auth.Refusal {
	if refusal := p.judgeKey(p.site.state.keys.Fresh); refusal != nil {
		return refusal
	}
	return p.firstRules()
}

// judgeKey judges by the key that find returns. It returns a refusal only if the
// key could not be read.
func (p *passage) judgeKey(find func(context.Context, string) (*auth.Key, error)) *auth.Refusal {
	key, err := find(p.r.Context(), p.request.Credentials.KeyID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return p.lookupRefusal(err)
	}
	now := time.Now()
	p.judgement, p.info.Key = auth.Judge(&p.request, key, p.site.rules.window, now), key
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

// lookupRefusal returns the refusal for a key that could not be read. If the
// client has closed the connection meanwhile, the store has not failed.
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

var errKeyKeepsChanging = errors.New("the key was changed each time that the request was judged")
