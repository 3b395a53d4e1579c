package caddymodule

import (
	"context"
	"errors"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// judge finds the key and says which of the rules fail that need neither the
// body nor shared state. It returns the refusal by rules 2 to 4. What rests on
// the record as we remember it is confirmed with a fresh read first.
func (p *passage) judge() *auth.Refusal {
	if refusal := p.judgeKey(p.site.state.keys.Lookup); refusal != nil {
		return refusal
	}
	if p.info.Key != nil && p.judgement.Failed.Has(auth.RuleEnabled|auth.RuleExpiry|auth.RuleSignature|auth.RuleScope) {
		return p.judgeFresh()
	}
	return p.firstRules()
}

// judgeFresh is judge by the record as it is stored now.
func (p *passage) judgeFresh() *auth.Refusal {
	if refusal := p.judgeKey(p.site.state.keys.Fresh); refusal != nil {
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

var errKeyKeepsChanging = errors.New("the key was changed each time that the request was judged")
