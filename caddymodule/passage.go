package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/assertion"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/caddymodule/translating"
	"github.com/card-gateway/card-gateway/gate"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// A passage is the state of one request in card_auth.
type passage struct {
	info    request.Info
	site    *site
	w       request.Writer
	r       *http.Request
	limits  *request.RateLimitOptions
	sent    headers.Values // to the upstream
	dropped []string       // headers of the client that the rule has removed
	*judging
}

// A judging is what the gate works with. It is used again for other requests.
type judging struct {
	settler  meter.Settler
	arrival  gate.Arrival
	decision gate.Decision
}

var judgings = sync.Pool{New: func() any { return new(judging) }}

// free returns the judging of a request that has ended to its pool, without any data of
// the request. What outlives the request, for the access log, forgets what it has of it.
func (p *passage) free() {
	p.info.Own, p.w.Charges, p.w.States = nil, nil, nil
	*p.judging = judging{}
	judgings.Put(p.judging)
	p.judging = nil
}

// serve judges the request, and lets the handlers behind answer it if it passes.
func (p *passage) serve(next caddyhttp.Handler, start time.Time) error {
	site, info, r := p.site, &p.info, p.r
	p.decide()
	if refusal := p.decision.Refusal; refusal != nil {
		info.Overhead = time.Since(start) - p.decision.Body.Waited
		p.answerAtOnce()
		return p.refuse(p.generic(refusal))
	}
	if info.DryRun != nil {
		p.reportDryRun()
	}
	p.reportDropped()
	p.prepareUpstream()
	defer request.WaitForClient(r).End()
	if refusal := p.assert(); refusal != nil {
		return request.Refuse(&p.w, r, refusal)
	}
	info.Overhead += time.Since(start) - p.decision.Body.Waited
	if !site.downstream.answersOwn {
		info.Upstream.Asked = time.Now()
	}
	if site.downstream.mayRepeat {
		once, done := sendOnce(r)
		defer done()
		r = once
	}
	return p.finish(r, p.answer(next, r))
}

// note logs and counts a refusal that can no longer be sent to the client.
func (p *passage) note(refusal *auth.Refusal) {
	p.info.Refusal = refusal
	p.info.LogRefusal(refusal)
}

// decide lets the gate decide, and reports what it has found out.
func (p *passage) decide() {
	p.settler = meter.Settler{Backend: p.site.state.backend, Name: p.site.state.pooled.Name, Spans: &p.info.Spans}
	p.arrival = gate.Arrival{Writer: &p.w, Request: p.r, Context: context.WithoutCancel(p.r.Context()), Fault: request.CheckForwarded(p.site.server, p.r), Store: &p.settler}
	p.arrival.Method, p.arrival.Target = originalTarget(p.r)
	p.info.Client, p.info.Address = request.ClientAddress(p.r)
	if p.r.TLS != nil && !p.r.TLS.HandshakeComplete {
		p.info.Address = netip.Addr{} // early data over QUIC: its sender can forge the address
	}
	p.arrival.Client = p.info.Address
	if p.limits != nil {
		p.arrival.Limited, p.arrival.LimitsDryRun = true, p.limits.DryRun
	}
	defer p.takeOver()
	p.site.gate.Decide(&p.arrival, &p.decision)
}

// takeOver puts what the gate has found out where logs and later handlers look for it.
func (p *passage) takeOver() {
	d := &p.decision
	p.info.Target, p.info.Operation, p.info.Key, p.info.Skew = d.Target, d.Operation, d.Key, d.Skew
	p.info.Body, p.info.DryRun = d.Body.Held, d.DryRun
	p.info.Answer = p.site.state.answerMemory.Reserve(p.info.Caller())
	p.info.Aside, p.dropped = p.site.Rule.Clean(p.r.Header)
	switch state := p.site.state; {
	case d.Settled:
		if d.Verdict.Reason == auth.Accepted {
			state.accepted.Store(d.Claim.Now.UnixNano())
		}
		p.report(&d.Verdict)
	case d.Refusal != nil && d.Refusal.Reason == auth.StoreUnavailable:
		state.failed.Store(time.Now().UnixNano())
	}
	switch {
	case p.site.DryRun, d.Refusal != nil && d.Refusal.Reason == auth.StoreUnavailable && d.Claim.KeyID != "":
		p.info.Taken = request.TakenUnknown
	case d.Settled && d.Verdict.Reason == auth.Accepted:
		p.info.Taken = request.TakenOnce
	}
	p.signAnswer()
}

// reportDropped counts headers that do not reach the issuer, and names them in a debug
// line: an operator looks there for what pass_header needs.
func (p *passage) reportDropped() {
	if len(p.dropped) == 0 {
		return
	}
	meter.DroppedHeaders.Add(float64(len(p.dropped)))
	log := p.info.Reporter.Log.Named("requests")
	if line := log.Check(zap.DebugLevel, "headers of the client do not reach the issuer; pass_header names those that shall"); line != nil {
		slices.Sort(p.dropped)
		line.Write(zap.String("request_id", p.info.RequestID), zap.Strings("headers", p.dropped))
	}
}

// originalTarget returns the method and the request target as the client sent
// them, before any handler rewrote them.
func originalTarget(r *http.Request) (method, target string) {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return original.Method, original.RequestURI
	}
	return r.Method, r.RequestURI
}

// report sets the rate limit headers, and counts and reports what the verdict
// contains.
func (p *passage) report(v *store.Verdict) {
	d := &p.decision
	p.info.Failures = v.Failures
	// The age of a request that is sent again says nothing about a clock.
	if d.Judgement.SecretVersion > 0 && d.Request.Credentials.Unix > 0 && v.Reason != auth.ReplayedNonce {
		meter.ObserveSkew(p.info.Skew)
	}
	if v.Locked {
		p.site.state.renewLockRevision()
		p.reportLock()
	}
	if v.Uncounted {
		meter.UncountedFailures.Inc()
	}
	switch v.Reason {
	case auth.ReplayedNonce:
		if d.Secret() != nil {
			meter.RepeatedRequests.Inc()
		}
	case auth.Accepted, auth.RateLimited:
		if len(d.States) > 0 {
			p.countLimits(v, d.States)
			p.w.Limits, p.w.Charges, p.w.States = p.limits, d.Claim.Charges, d.States
		}
		if v.Reason == auth.Accepted && d.Operation.Own {
			p.info.Own = &request.OwnRequest{Request: &d.Request, Secret: d.Judgement.SecretVersion, Limits: slices.Clone(d.States)}
		}
	}
}

// signAnswer makes the answer to a correctly signed request a signed one, with the option
// sign_responses: refusals too, so that a client knows whom it may believe.
func (p *passage) signAnswer() {
	if !p.site.settings.SignResponses {
		return
	}
	if secret := p.decision.Secret(); secret != nil {
		p.w.SignWith(secret, p.decision.Request.Credentials.Nonce, p.r.Method)
	}
}

func (p *passage) countLimits(v *store.Verdict, states []ratelimit.State) {
	decision := meter.LimitAllowed
	switch {
	case v.Reason == auth.RateLimited:
		decision = meter.LimitRefused
	case v.OverLimit:
		decision = meter.LimitWouldRefuse
	default:
		for i := range states {
			if states[i].Remaining*5 < states[i].Limit {
				decision = meter.LimitNear
			}
		}
	}
	p.site.telemetry.Metrics.Operations[p.info.Operation.Index].Limits[decision]().Inc()
}

// reportLock counts and logs the lock that this request has caused.
func (p *passage) reportLock() {
	t := p.site.telemetry
	meter.KeyLocksTotal.Inc()
	t.Log.Warn("an API key was locked by consecutive authentication failures; it answers 401 until it is unlocked (card-keys unlock)",
		zap.String("key_id", p.info.Key.ID), zap.String("tenant", p.info.Key.Tenant),
		zap.Int("failures", p.decision.Claim.LockAfter), zap.String("client_ip", p.info.Client))
	t.keyChanged(keys.Change{
		At: time.Now(), Actor: keys.GatewayActor, Action: "lock",
		KeyID: p.info.Key.ID, Tenant: p.info.Key.Tenant, Revision: p.decision.Claim.NextRevision,
		Fields: []keys.FieldChange{{
			Field: "status", Old: json.RawMessage(`"` + keys.StatusActive + `"`), New: json.RawMessage(`"` + keys.StatusLocked + `"`),
		}},
	})
}

// answer calls the later handlers. They panic when the issuer breaks off half-way,
// so that the client is cut off too. While the answer is held to be signed, nothing
// of it was sent, and the client can still get a refusal.
func (p *passage) answer(next caddyhttp.Handler, r *http.Request) (err error) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		if reason != http.ErrAbortHandler || !p.w.IsHeld() || p.r.Context().Err() != nil {
			panic(reason)
		}
		err = auth.Refuse(auth.UpstreamError, cutOff)
	}()
	if p.mayBeTranslated() {
		return next.ServeHTTP(&p.w, r)
	}
	return p.info.HandOn(next, &p.w, r)
}

// finish turns the error of a later handler into an answer, unless an answer
// was already begun. If no handler has answered, that is an error too: net/http
// would answer 200.
func (p *passage) finish(r *http.Request, err error) error {
	switch {
	case err != nil:
	case p.w.Status == 0:
		return request.Refuse(&p.w, p.r, auth.Refuse(auth.UpstreamError, "no handler behind card_auth has answered"))
	case p.w.Status == auth.ClientGone.Status() && p.r.Context().Err() != nil:
		p.note(auth.Refuse(auth.ClientGone, "")) // reported by the reverse proxy
		return nil
	default:
		return nil
	}
	refusal := request.RefusalOf(err)
	if cause := context.Cause(r.Context()); errors.Is(cause, errSentOnce) {
		refusal = &auth.Refusal{Reason: auth.UpstreamError, Cause: cause}
	}
	if p.w.Status != 0 && !p.w.TakeBack() {
		p.note(refusal)
		return err
	}
	return request.Refuse(&p.w, p.r, refusal)
}

// cutOff says that an issuer's answer is not whole.
const cutOff = "the answer broke off half-way"

// broken notes why a handler has panicked. Caddy's reverse proxy panics when an
// answer breaks off half-way, so that the client notices.
func (p *passage) broken(panicked any) {
	switch {
	case p.info.Refusal != nil:
	case panicked != http.ErrAbortHandler:
		p.note(auth.Refuse(auth.InternalError, "a handler has panicked"))
	case p.w.Failed || p.r.Context().Err() != nil:
		p.note(auth.Refuse(auth.ClientGone, "while the answer was sent"))
	default:
		p.note(auth.Refuse(auth.UpstreamError, cutOff))
	}
}

// generic replaces the texts of rules 2 to 10 by one text, with the option
// generic_messages.
func (p *passage) generic(refusal *auth.Refusal) *auth.Refusal {
	if p.site.GenericMessages && refusal.Reason.Status() == http.StatusUnauthorized && refusal.Reason != auth.MissingHeaders {
		refusal.Message = genericMessage
	}
	return refusal
}

// genericMessage is the one text of generic_messages.
const genericMessage = "Authentication failed"

// prepareUpstream changes the request into the one that the upstream gets: the held
// body, the request id, the identity headers, and the target of sensitive
// details in one spelling.
func (p *passage) prepareUpstream() {
	p.info.Body.ForwardTo(p.r)
	p.sent.Set(p.r.Header, headers.RequestID, p.info.RequestID)
	request.TellClient(p.r)
	if p.identified() {
		p.setIdentity(p.r.Header)
	}
	if p.r.URL.RequestURI() != p.info.Target.Raw {
		return // a handler before card_auth has rewritten it, on purpose
	}
	if p.info.Operation.Name != auth.SensitiveOperation {
		return
	}
	if target := auth.UpstreamTarget(p.info.Target); target != p.info.Target.Raw {
		if url, err := p.r.URL.Parse(target); err == nil {
			p.r.URL.Path, p.r.URL.RawPath = url.Path, url.RawPath
		}
	}
}

// mayBeTranslated reports whether a card_translate may change the request, or
// refuse it, before the issuer is asked.
func (p *passage) mayBeTranslated() bool {
	return p.site.downstream.translates && (translating.TranslatedOperation(p.info.Operation.Name) || len(p.r.Header[headers.Shape]) > 0)
}

// identified reports whether the sender of the request is proved. In a dry run
// requests pass whose sender is not.
func (p *passage) identified() bool {
	return p.info.DryRun == nil || p.info.DryRun.Reason == auth.RateLimited
}

// setIdentity sets the headers that name the caller and the operation.
func (p *passage) setIdentity(h http.Header) {
	key := p.info.Key
	p.sent.Set(h, headers.KeyID, key.ID)
	p.sent.Set(h, headers.Tenant, key.Tenant)
	p.sent.Set(h, headers.Scopes, key.Scopes.String())
	p.sent.Set(h, headers.Operation, p.info.Operation.Name)
}

// assert prepares the assertion of a request whose sender is proved. card_forward
// makes it of what it sends. For reverse_proxy it is made here, because there the
// handlers behind card_auth change nothing but the body, and only card_translate
// does. assert refuses every request if another handler could.
func (p *passage) assert() *auth.Refusal {
	site := p.site
	if site.signer == nil || site.downstream.answersOwn || !p.identified() {
		return nil
	}
	if why := site.downstream.unasserted; why != "" {
		return auth.Refuse(auth.InternalError, why)
	}
	key := p.info.Key
	p.info.Asserting = request.Asserting{Signer: site.signer, Claims: assertion.Claims{
		RequestID: p.info.RequestID, KeyID: key.ID, Nonce: p.decision.Request.Credentials.Nonce, Tenant: key.Tenant,
		Scopes: key.Scopes.String(), Operation: p.info.Operation.Name, Digest: p.decision.Body.Sum,
	}}
	if site.downstream.proxies {
		p.info.Asserting.Put(p.r)
	}
	return nil
}
