package caddymodule

import (
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// readBody reads the body once and checks its hash. It refuses a body of a wrong
// type, and one that cannot be read or held. If the signature is wrong, the body
// is only hashed, so that an unproven sender uses no memory.
func (p *passage) readBody() *auth.Refusal {
	keep := p.site.DryRun || !p.judgement.Failed.Has(auth.RuleSignature)
	if p.bodyRead {
		if keep && p.info.body == nil && !p.bodyDropped {
			return storeRefusal(errKeyKeepsChanging)
		}
		p.checkHash()
		return nil
	}
	if !p.site.DryRun && p.site.behind.translates && translatedOperation(p.info.Operation.Name) {
		if fault := typeFault(p.r); fault != nil {
			return p.unlessLocked(&auth.Refusal{Reason: auth.UnsupportedMediaType, Log: fault[0].Message, Details: fault})
		}
	}
	reader := &p.reader
	*reader = bodyReader{max: p.maxBody(), arrival: arrival{timeout: time.Duration(p.site.BodyTimeout)}}
	if keep {
		reader.look = p.lookBeforeBody
		reader.hold = p.info.reservation(p.site.state.bodies)
		reader.pooled = !p.site.behind.mayRepeat
	}
	start := time.Now()
	body, refusal := reader.read(&p.w, p.r)
	p.waited += time.Since(start)
	if refusal != nil {
		if refusal.Reason == auth.BodyTooLarge {
			return p.unlessLocked(refusal)
		}
		return refusal
	}
	p.bodyRead, p.bodyDropped, p.bodySum, p.info.body = true, keep && body.held == nil, body.sum, body.held
	p.bodySize = body.size
	p.checkHash()
	return nil
}

func (p *passage) checkHash() {
	if !auth.BodyHashEqual(p.request.Credentials.BodyHash, p.bodySum) {
		p.judgement.Failed |= auth.RuleBodyHash
	}
}

// lookBeforeBody asks the store, without writing, how it would decide if the
// body hash were correct. It reports whether the body is worth holding. If the
// request would be refused, the body is only hashed, and settling decides the
// answer in the published order. Only a lock (rule 5) is refused at once.
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
