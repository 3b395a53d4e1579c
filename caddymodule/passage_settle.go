package caddymodule

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// unlessLocked returns the refusal of a body by its size or type, or that by
// rule 5, which comes before it. The request settles only if the count has
// reached the threshold; otherwise nothing is settled or counted.
func (p *passage) unlessLocked(refusal *auth.Refusal) *auth.Refusal {
	if p.info.Key == nil {
		return refusal
	}
	claim, failed := p.newClaim()
	if failed != nil {
		return failed
	}
	verdict, err := p.site.state.backend.Look(p.r.Context(), claim)
	switch {
	case err != nil:
		return p.lookupRefusal(err)
	case verdict.Reason == auth.KeyLocked:
		return p.settleLock(refusal)
	default:
		return refusal
	}
}

// settleLock settles a request whose key is to be locked, and returns the
// refusal by rule 5, or the given one when the key is not locked after all.
func (p *passage) settleLock(otherwise *auth.Refusal) *auth.Refusal {
	p.bodyDropped = true // so that the store does not accept the request, and does not count a correct one
	verdict, failed := p.settle()
	switch {
	case failed != nil:
		return failed
	case verdict.Reason == auth.KeyLocked:
		return p.judged(&verdict)
	default:
		return otherwise
	}
}

// newClaim returns the claim of the request as it was judged, with the current
// time. The refusal is for a key that has expired meanwhile.
func (p *passage) newClaim() (*store.Claim, *auth.Refusal) {
	rules, key := p.site.rules, p.info.Key
	now := time.Now()
	if !key.ExpiresAt.IsZero() && !now.Before(key.ExpiresAt) {
		return nil, &auth.Refusal{Reason: auth.KeyExpired, Log: "the key expired while the body arrived"}
	}
	p.claim = store.Claim{
		KeyID: key.ID, Revision: key.Revision, NextRevision: p.site.state.lockRevision(),
		SecretVersion: p.judgement.SecretVersion,
		Now:           now, Timestamp: p.request.Credentials.Unix,
		Window: rules.window, ReplayFloorAhead: rules.floorAhead,
		Nonce:     auth.NonceDigest(p.request.Credentials.Nonce),
		Failed:    p.judgement.Failed,
		LockAfter: rules.lockAfter, LockDuration: rules.lockDuration, LockCounts: rules.lockCounts,
		DryRun:      p.site.DryRun,
		BodyDropped: p.bodyDropped,
	}
	if p.limits != nil {
		p.claim.Charges = rules.limits.AppendCharges(p.charges[:0], p.info.Operation.Name, key.Limits, now)
		p.claim.LimitsDryRun = p.limits.DryRun
	}
	return &p.claim, nil
}

// settle lets the store decide everything that needs shared state.
func (p *passage) settle() (store.Verdict, *auth.Refusal) {
	claim, refusal := p.newClaim()
	if refusal != nil {
		return store.Verdict{}, refusal
	}
	span := p.info.spans.startSettle(p.site.state.pooled.name)
	defer span.end()
	verdict, err := p.decide(context.WithoutCancel(p.r.Context()), claim)
	switch {
	case err != nil:
		refusal = storeRefusal(err)
		span.outcome(refusal.Reason)
	case verdict.Stale:
		span.set("card_gateway.outcome", "stale")
	default:
		span.outcome(verdict.Reason)
	}
	return verdict, refusal
}

// decide returns the store's verdict on the claim. A client that signs correctly
// with a retired secret is no stranger, so its failure is not counted: decide
// asks the store without writing. It settles such a request only if it would be
// refused and written in the same way with a live secret, such as the lock by
// rule 5.
func (p *passage) decide(ctx context.Context, claim *store.Claim) (store.Verdict, error) {
	backend := p.site.state.backend
	if p.judgement.Retired == nil || p.site.DryRun {
		return backend.Settle(ctx, claim)
	}
	verdict, err := backend.Look(ctx, claim)
	switch {
	case err != nil || verdict.Stale || verdict.Reason == auth.SignatureMismatch:
		return verdict, err
	case verdict.Reason == auth.KeyLocked, auth.Counts(verdict.Reason, claim.Failed&^auth.RuleSignature, claim.LockCounts):
		return backend.Settle(ctx, claim)
	default:
		return verdict, nil
	}
}

// judged returns the refusal of the verdict, or nil. It sets the rate limit
// headers, and counts and reports what the verdict contains.
func (p *passage) judged(v *store.Verdict) *auth.Refusal {
	p.info.failures = v.Failures
	// The age of a request that is sent again says nothing about a clock.
	if p.judgement.SecretVersion > 0 && p.request.Credentials.Unix > 0 && v.Reason != auth.ReplayedNonce {
		observeSkew(p.info.skew)
	}
	if v.Locked {
		p.site.state.renewLockRevision()
		p.reportLock()
	}
	if v.Reason == auth.ScopeMissing {
		p.signAnswer()
	}
	if v.Reason != auth.Accepted && v.Reason != auth.RateLimited {
		return &auth.Refusal{Reason: v.Reason, Log: p.explain(v), Details: p.details(v), RetryAfter: v.RetryAfter}
	}
	p.signAnswer()
	states := v.States[:len(p.claim.Charges)]
	var retry time.Duration
	if len(states) > 0 {
		p.w.setLimits(p.limits, p.claim.Charges, states)
		p.countLimits(v, states)
		retry = states[ratelimit.Tightest(states)].Retry
	}
	if v.Reason == auth.RateLimited {
		return &auth.Refusal{Reason: auth.RateLimited, Log: p.explain(v), Details: p.details(v), RetryAfter: max(retry, time.Second)}
	}
	if p.info.Operation.Own {
		p.info.own = &ownRequest{Request: &p.request, secret: p.judgement.SecretVersion, limits: slices.Clone(states)}
	}
	return nil
}

// signAnswer makes the answer a signed one, with the option sign_responses. The
// request has passed rules 1 to 10.
func (p *passage) signAnswer() {
	if !p.site.rules.signResponses {
		return
	}
	at := slices.IndexFunc(p.info.Key.Secrets, func(s *auth.Secret) bool { return s.Version() == p.judgement.SecretVersion })
	if at < 0 {
		return // a dry run
	}
	p.w.signs = signedAnswer{
		secret: p.info.Key.Secrets[at], nonce: p.request.Credentials.Nonce, method: p.r.Method, memory: p.info.reservation(p.info.answers),
	}
}

func (p *passage) countLimits(v *store.Verdict, states []ratelimit.State) {
	decision := limitAllowed
	switch {
	case v.Reason == auth.RateLimited:
		decision = limitRefused
	case v.OverLimit:
		decision = limitWouldRefuse
	default:
		for i := range states {
			if states[i].Remaining*5 < states[i].Limit {
				decision = limitNear
			}
		}
	}
	p.site.telemetry.metrics.operations[p.info.Operation.Index].limits[decision].Inc()
}

// reportLock counts and logs the lock that this request has caused.
func (p *passage) reportLock() {
	t := p.site.telemetry
	keyLocksTotal.Inc()
	t.log.Warn("an API key was locked by consecutive authentication failures; it answers 401 until it is unlocked (card-keys unlock)",
		zap.String("key_id", p.info.Key.ID), zap.String("tenant", p.info.Key.Tenant),
		zap.Int("failures", p.claim.LockAfter), zap.String("client_ip", p.info.Client))
	t.keyChanged(keys.Change{
		At: time.Now(), Actor: keys.GatewayActor, Action: "lock",
		KeyID: p.info.Key.ID, Tenant: p.info.Key.Tenant, Revision: p.claim.NextRevision,
		Fields: []keys.FieldChange{{
			Field: "status", Old: json.RawMessage(`"` + keys.StatusActive + `"`), New: json.RawMessage(`"` + keys.StatusLocked + `"`),
		}},
	})
}

// explainRetired returns the log text for a client that signs with a retired
// secret.
func explainRetired(s *auth.Secret) string {
	return "the client still signs with secret version " + strconv.Itoa(s.Version()) + ", retired at " + s.Expires().UTC().Format(time.RFC3339)
}

// details says for the answer to a signed caller which scope the request needs,
// or which limit was reached.
func (p *passage) details(v *store.Verdict) []auth.FieldError {
	switch v.Reason {
	case auth.ScopeMissing:
		if p.info.Operation.Name == auth.OtherOperation {
			return detail("no_operation", "No operation of this gateway has this method and path; look for a typing mistake. Only a key with the scope * may use other paths")
		}
		return detail("scope", "The operation "+p.info.Operation.Name+" needs the scope "+p.request.Scope+" for this method and path")
	case auth.RateLimited:
		state := &v.States[ratelimit.Tightest(v.States[:len(p.claim.Charges)])]
		return detail("limit", "The limit "+state.Bucket+" of this key is used up; it holds "+strconv.FormatInt(state.Limit, 10)+" at most")
	}
	return nil
}
