package gate

import (
	"context"
	"errors"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// Judged is what follows from the head of a request, its key and the clock.
type Judged struct {
	Key       *auth.Key // nil: there is none, or it was not looked for
	Judgement auth.Judgement
	Skew      time.Duration // our clock minus X-Timestamp, of a correctly signed request; else 0
}

// judge finds the key and judges the rules that need neither the body nor shared
// state. It refuses by rules 2 to 4. If a record that may be old leads to a refusal,
// the record is read again, and the request judged anew.
func (g *Gate) judge(a *Arrival, asked *Asked, find func(context.Context, string) (*auth.Key, error)) (Judged, *auth.Refusal) {
	judged, refusal := g.judgeBy(a, asked, find)
	const cached = auth.RuleEnabled | auth.RuleExpiry | auth.RuleSignature | auth.RuleScope
	if refusal == nil && judged.Key != nil && judged.Judgement.Failed.Has(cached) {
		judged, refusal = g.judgeBy(a, asked, g.Keys.Fresh)
	}
	if refusal != nil {
		return judged, refusal
	}
	if first := judged.Judgement.Failed & (auth.RuleKnown | auth.RuleEnabled | auth.RuleExpiry); first != 0 {
		return judged, &auth.Refusal{Reason: first.First()}
	}
	return judged, nil
}

// judgeBy judges by the key that find returns. It refuses only if the key could not
// be read.
func (g *Gate) judgeBy(a *Arrival, asked *Asked, find func(context.Context, string) (*auth.Key, error)) (judged Judged, refusal *auth.Refusal) {
	key, err := find(a.Context, asked.Request.Credentials.KeyID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return judged, lookupRefusal(err)
	}
	now := time.Now()
	judged.Key, judged.Judgement = key, auth.Judge(&asked.Request, key, g.Window, now)
	if unix := asked.Request.Credentials.Unix; key != nil && unix > 0 && !judged.Judgement.Failed.Has(auth.RuleSignature) {
		judged.Skew = now.Sub(time.Unix(unix, 0))
	}
	return judged, nil
}

// lookupRefusal returns the refusal for a key that could not be read.
func lookupRefusal(err error) *auth.Refusal {
	if errors.Is(err, keys.ErrLookupBudget) {
		return &auth.Refusal{Reason: auth.OverBudget, RetryAfter: time.Second, Cause: err}
	}
	return StoreRefusal(err)
}

// StoreRefusal returns the refusal for an error of the store: always 503, never
// 401 or 429.
func StoreRefusal(err error) *auth.Refusal {
	return &auth.Refusal{Reason: auth.StoreUnavailable, RetryAfter: time.Second, Cause: err}
}

var errKeyKeepsChanging = errors.New("the key was changed each time that the request was judged")
