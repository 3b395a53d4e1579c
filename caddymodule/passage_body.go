package caddymodule

import (
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// readBody refuses what cannot be read, reads the body once and finds out
// whether its hash is the one that was signed. A body with a wrong signature is
// only hashed, so that no unproven sender makes us hold memory.
func (p *passage) readBody() *auth.Refusal {
	keep := p.site.DryRun || !p.judgement.Failed.Has(auth.RuleSignature)
	if p.bodyRead {
		if keep && p.info.body == nil && !p.bodyDropped {
			return storeRefusal(errKeyKeepsChanging)
		}
		p.checkHash()
		return nil
	}
	if !p.site.DryRun && p.site.behind.translates && translatedOperation(p.info.Operation.Name) && !jsonRequest(p.r) {
		return p.unlessLocked(&auth.Refusal{Reason: auth.UnsupportedMediaType})
	}
	reader := bodyReader{max: p.maxBody(), arrival: arrival{timeout: time.Duration(p.site.BodyTimeout)}}
	if keep {
		reader.look = p.lookBeforeBody
		reader.hold = p.info.reservation(p.site.state.bodies)
	}
	start := time.Now()
	body, refusal := reader.read(p.w, p.r)
	p.waited += time.Since(start)
	if refusal != nil {
		if refusal.Reason == auth.BodyTooLarge {
			return p.unlessLocked(refusal)
		}
		return refusal
	}
	p.bodyRead, p.bodyDropped, p.bodySum, p.info.body = true, keep && body.held == nil, body.sum, body.held
	p.checkHash()
	return nil
}

func (p *passage) checkHash() {
	if !auth.BodyHashEqual(p.request.Credentials.BodyHash, p.bodySum) {
		p.judgement.Failed |= auth.RuleBodyHash
	}
}

// lookBeforeBody asks the store, without writing anything, what it would answer
// if the body were the signed one. A request that would be refused is not worth
// holding a body for: its body is hashed and discarded, and the answer is that
// of the published order, decided when it is settled. Only a lock (rule 5)
// answers at once.
func (p *passage) lookBeforeBody() (worth bool, refusal *auth.Refusal) {
	if p.site.DryRun {
		return true, nil
	}
	claim, refusal := p.newClaim()
	if refusal != nil {
		return false, refusal
	}
	verdict, err := p.site.state.backend.Look(p.r.Context(), claim)
	switch {
	case err != nil:
		return false, p.lookupRefusal(err)
	case verdict.Reason == auth.KeyLocked:
		return false, p.settleLock(auth.Refuse(auth.KeyLocked, ""))
	default:
		return verdict.Stale || verdict.Reason == auth.Accepted, nil
	}
}

func (p *passage) maxBody() int64 {
	if p.info.Operation.MaxBody > 0 {
		return p.info.Operation.MaxBody
	}
	return p.site.MaxBody
}
