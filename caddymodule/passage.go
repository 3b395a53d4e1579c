package caddymodule

import (
	"context"
	"crypto/sha256"
	"errors"
	"mime"
	"net/http"
	"net/netip"
	"strings"
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
	for attempt := range judgings {
		if refusal := p.judge(attempt > 0); refusal != nil {
			return refusal
		}
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
func (p *passage) judge(fresh bool) *auth.Refusal {
	lookup := p.h.state.keys.Lookup
	if fresh {
		lookup = p.h.state.keys.Fresh
	}
	key, err := lookup(p.r.Context(), p.request.Credentials.KeyID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return p.lookupRefusal(err)
	}
	now := time.Now()
	p.judgement = auth.Judge(&p.request, key, p.h.rules.window, now)
	failed := p.judgement.Failed
	p.info.Key = key
	if key != nil && !fresh && failed.Has(auth.RuleEnabled|auth.RuleExpiry|auth.RuleSignature|auth.RuleScope) {
		return p.judge(true)
	}
	if key != nil && !failed.Has(auth.RuleSignature) && p.request.Credentials.Unix > 0 {
		p.info.skew = now.Sub(time.Unix(p.request.Credentials.Unix, 0))
	}
	if first := failed & (auth.RuleKnown | auth.RuleEnabled | auth.RuleExpiry); first != 0 {
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

// readBody refuses what cannot be read, reads the body once and finds out
// whether its hash is the one that was signed. A body with a wrong signature is
// only hashed, so that no unproven sender makes us hold memory.
func (p *passage) readBody() *auth.Refusal {
	keep := p.h.DryRun || !p.judgement.Failed.Has(auth.RuleSignature)
	if p.bodyRead {
		if keep && p.info.body == nil && !p.bodyDropped {
			return storeRefusal(errKeyKeepsChanging)
		}
		p.checkHash()
		return nil
	}
	if !p.h.DryRun && p.h.translates && translatedOperation(p.info.Operation.Name) && !jsonRequest(p.r) {
		return p.unlessLocked(&auth.Refusal{Reason: auth.UnsupportedMediaType})
	}
	reader := bodyReader{max: p.maxBody(), timeout: time.Duration(p.h.BodyTimeout)}
	if keep {
		reader.look = p.lookBeforeBody
		reader.hold = p.info.reservation(p.h.state.bodies)
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
	if p.h.DryRun {
		return true, nil
	}
	claim, refusal := p.newClaim()
	if refusal != nil {
		return false, refusal
	}
	verdict, err := p.h.state.backend.Look(p.r.Context(), claim)
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
	return p.h.MaxBody
}

// unlessLocked gives way to rule 5, which comes before the refusals of a body
// by its size or type. Only when the count has reached the threshold does the
// request settle; else nothing is settled or counted.
func (p *passage) unlessLocked(refusal *auth.Refusal) *auth.Refusal {
	if p.info.Key == nil {
		return refusal
	}
	claim, failed := p.newClaim()
	if failed != nil {
		return failed
	}
	verdict, err := p.h.state.backend.Look(p.r.Context(), claim)
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
	p.judgement.Failed |= auth.RuleBodyHash // whatever else happens, it is not accepted
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

// newClaim makes the claim of the request as it was judged, at the time of now.
func (p *passage) newClaim() (*store.Claim, *auth.Refusal) {
	rules, key := p.h.rules, p.info.Key
	now := time.Now()
	if !key.ExpiresAt.IsZero() && !now.Before(key.ExpiresAt) {
		return nil, &auth.Refusal{Reason: auth.KeyExpired, Log: "the key expired while the body arrived"}
	}
	p.claim = store.Claim{
		KeyID: key.ID, Revision: key.Revision, NextRevision: p.h.state.lockRevision(),
		SecretVersion: p.judgement.SecretVersion,
		Now:           now, Timestamp: p.request.Credentials.Unix,
		Window: rules.window, ReplayFloorAhead: rules.floorAhead,
		Nonce:     auth.NonceDigest(p.request.Credentials.Nonce),
		Failed:    p.judgement.Failed,
		LockAfter: rules.lockAfter, LockDuration: rules.lockDuration, LockCounts: rules.lockCounts,
		DryRun:      p.h.DryRun,
		BodyDropped: p.bodyDropped,
	}
	if p.limits != nil {
		p.claim.Charges = rules.limits.AppendCharges(p.charges[:0], p.info.Operation.Name, key.Limits, now)
		p.claim.LimitsDryRun = p.limits.DryRun
	}
	return &p.claim, nil
}

// settle asks the store for everything that only shared state can decide.
func (p *passage) settle() (store.Verdict, *auth.Refusal) {
	claim, refusal := p.newClaim()
	if refusal != nil {
		return store.Verdict{}, refusal
	}
	verdict, err := p.decide(context.WithoutCancel(p.r.Context()), claim)
	if err != nil {
		return verdict, storeRefusal(err)
	}
	return verdict, nil
}

// judged turns the verdict into the refusal, or nil, with the rate limit
// headers and everything that is counted.
func (p *passage) judged(v *store.Verdict) *auth.Refusal {
	p.info.failures = v.Failures
	if p.judgement.SecretVersion > 0 && p.request.Credentials.Unix > 0 {
		observeSkew(p.info.skew)
	}
	if v.Locked {
		p.h.state.renewLockRevision()
		p.h.telemetry.keyLocked(p)
	}
	if v.Reason != auth.Accepted && v.Reason != auth.RateLimited {
		return &auth.Refusal{Reason: v.Reason, Log: p.explain(v), RetryAfter: v.RetryAfter}
	}
	states := v.States[:len(p.claim.Charges)]
	var retry time.Duration
	if len(states) > 0 {
		p.w.setLimits(p.limits, p.claim.Charges, states)
		p.countLimits(v, states)
		retry = states[ratelimit.Tightest(states)].Retry
	}
	if v.Reason == auth.RateLimited {
		return &auth.Refusal{Reason: auth.RateLimited, Log: p.explain(v), RetryAfter: max(retry, time.Second)}
	}
	return nil
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
	p.h.telemetry.metrics.operations[p.info.Operation.Index].limits[decision].Inc()
}

// jsonRequest reports whether the body is JSON in UTF-8 without an encoding,
// or there is no body.
func jsonRequest(r *http.Request) bool {
	if r.ContentLength == 0 {
		return true
	}
	for _, encoding := range r.Header["Content-Encoding"] {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return false
		}
	}
	types := r.Header["Content-Type"]
	if len(types) != 1 {
		return false
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return false
	}
	charset, given := params["charset"]
	return !given || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")
}
