package caddymodule

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/assertion"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// A passage is the state of one request in card_auth. Its steps follow in their
// order: admit, judge, readBody, settle, judged; then prepareUpstream, assert, answer
// and finish. A step stores its results here for the next one.
type passage struct {
	info   requestInfo
	site   *site
	w      responseWriter
	r      *http.Request
	limits *RateLimitOptions
	sent   headerValues // to the upstream
	reader held.Receiver

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

// note logs and counts a refusal that can no longer be sent to the client.
func (p *passage) note(refusal *auth.Refusal) {
	p.info.refusal = refusal
	p.info.logRefusal(refusal)
}

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
	if !p.site.DryRun && p.site.downstream.translates && translatedOperation(p.info.Operation.Name) {
		if fault := typeFault(p.r); fault != nil {
			return p.unlessLocked(&auth.Refusal{Reason: auth.UnsupportedMediaType, Log: fault[0].Message, Details: fault})
		}
	}
	reader := &p.reader
	*reader = held.Receiver{Max: p.maxBody(), Timeout: time.Duration(p.site.BodyTimeout)}
	if keep {
		reader.Look = p.lookBeforeBody
		reader.Memory = p.info.reserve(p.site.state.bodies)
		reader.Pooled = !p.site.downstream.mayRepeat
	}
	start := time.Now()
	body, refusal := reader.Receive(&p.w, p.r)
	p.waited += time.Since(start)
	if refusal != nil {
		if refusal.Reason == auth.BodyTooLarge {
			return p.unlessLocked(refusal)
		}
		return refusal
	}
	p.bodyRead, p.bodyDropped, p.bodySum, p.info.body = true, keep && body.Body == nil, body.Sum, body.Body
	p.bodySize = body.Size
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
		return &auth.Refusal{Reason: v.Reason, Log: p.verdictText(v), Details: p.details(v), RetryAfter: v.RetryAfter}
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
		return &auth.Refusal{Reason: auth.RateLimited, Log: p.verdictText(v), Details: p.details(v), RetryAfter: max(retry, time.Second)}
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
		secret: p.info.Key.Secrets[at], nonce: p.request.Credentials.Nonce, method: p.r.Method, memory: p.info.reserve(p.info.answerMemory),
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

// verdictText returns the details of the store's verdict for the log, or "" if the
// reason alone is enough.
func (p *passage) verdictText(v *store.Verdict) string {
	switch v.Reason {
	case auth.TimestampOutOfWindow:
		return p.explainTimestamp()
	case auth.ReplayFloor:
		return "the store may have lost the nonces of that moment"
	case auth.SignatureMismatch:
		if p.judgement.Retired != nil {
			return explainRetired(p.judgement.Retired)
		}
	case auth.ScopeMissing:
		return "the request needs the scope " + p.request.Scope
	case auth.RateLimited:
		refusing := ratelimit.Tightest(v.States[:len(p.claim.Charges)])
		return "the bucket " + p.claim.Charges[refusing].Bucket + " is empty"
	}
	return ""
}

// explainTimestamp returns why rule 7 failed: the timestamp is not valid, it is
// too far from the clock, or it is older than the copy of the key to this store.
func (p *passage) explainTimestamp() string {
	stamp := p.request.Credentials.Unix
	switch off := p.claim.Now.Unix() - stamp; {
	case stamp == 0:
		return "X-Timestamp is not a number of ten digits"
	case auth.InWindow(p.claim.Now, stamp, p.site.rules.window):
		return "the nonces of that moment stayed in the store that the key was copied from"
	case off < 0:
		return "X-Timestamp is " + strconv.FormatInt(-off, 10) + " s ahead of our clock"
	default:
		return "X-Timestamp is " + strconv.FormatInt(off, 10) + " s behind our clock"
	}
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
		if reason != http.ErrAbortHandler || !p.w.signs.isHeld() || p.r.Context().Err() != nil {
			panic(reason)
		}
		err = auth.Refuse(auth.UpstreamError, cutOff)
	}()
	if p.mayBeTranslated() {
		return next.ServeHTTP(&p.w, r)
	}
	return p.info.handOn(next, &p.w, r)
}

// finish turns the error of a later handler into an answer, unless an answer
// was already begun. If no handler has answered, that is an error too: net/http
// would answer 200.
func (p *passage) finish(r *http.Request, err error) error {
	switch {
	case err != nil:
	case p.w.status == 0:
		return refuse(&p.w, p.r, auth.Refuse(auth.UpstreamError, "no handler behind card_auth has answered"))
	case p.w.status == auth.ClientGone.Status() && p.r.Context().Err() != nil:
		p.note(auth.Refuse(auth.ClientGone, "")) // reported by the reverse proxy
		return nil
	default:
		return nil
	}
	refusal := refusalOf(err)
	if cause := context.Cause(r.Context()); errors.Is(cause, errSentOnce) {
		refusal = &auth.Refusal{Reason: auth.UpstreamError, Cause: cause}
	}
	if p.w.status != 0 && !p.w.takeBack() {
		p.note(refusal)
		return err
	}
	return refuse(&p.w, p.r, refusal)
}

// cutOff says that an issuer's answer is not whole.
const cutOff = "the answer broke off half-way"

// broken notes why a handler has panicked. Caddy's reverse proxy panics when an
// answer breaks off half-way, so that the client notices.
func (p *passage) broken(panicked any) {
	switch {
	case p.info.refusal != nil:
	case panicked != http.ErrAbortHandler:
		p.note(auth.Refuse(auth.InternalError, "a handler has panicked"))
	case p.w.failed || p.r.Context().Err() != nil:
		p.note(auth.Refuse(auth.ClientGone, "while the answer was sent"))
	default:
		p.note(auth.Refuse(auth.UpstreamError, cutOff))
	}
}

// pass returns nil if a dry run forwards the refused request. Then it has read
// the body and noted the refusal. Otherwise it returns the refusal to send.
func (p *passage) pass(refusal *auth.Refusal) *auth.Refusal {
	if !p.site.DryRun || !dryRunLetsPass(refusal.Reason) || p.r.Method == http.MethodConnect {
		return p.generic(refusal)
	}
	if p.info.Operation == nil {
		p.info.Operation = p.site.other
	}
	if failed := p.readBody(); failed != nil {
		return failed
	}
	p.info.dryRun = refusal
	if now := time.Now(); p.mayExplain(refusal.Reason, now) {
		p.account(refusal, now)
	}
	p.info.logRefusal(refusal)
	return nil
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

// tellClient writes the client's address, as Caddy chose it, into
// X-Forwarded-For, if a trusted proxy sent the request. The terminal handler
// appends the proxy's address. The values of client and proxies were removed
// before, unless pass_header names the header.
func (p *passage) tellClient() {
	const name = "X-Forwarded-For"
	if _, passed := p.r.Header[name]; passed || !fromProxy(p.r) {
		return
	}
	if text, addr := clientAddress(p.r); addr.IsValid() {
		p.r.Header[name] = []string{text}
	}
}

// prepareUpstream changes the request into the one that the upstream gets: the held
// body, the request id, the identity headers, and the target of sensitive
// details in one spelling.
func (p *passage) prepareUpstream() {
	p.info.body.ForwardTo(p.r)
	p.sent.set(p.r.Header, headerRequestID, p.info.RequestID)
	p.tellClient()
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
	return p.site.downstream.translates && (translatedOperation(p.info.Operation.Name) || len(p.r.Header[headerShape]) > 0)
}

// identified reports whether the sender of the request is proved. In a dry run
// requests pass whose sender is not.
func (p *passage) identified() bool {
	return p.info.dryRun == nil || p.info.dryRun.Reason == auth.RateLimited
}

// setIdentity sets the headers that name the caller and the operation.
func (p *passage) setIdentity(h http.Header) {
	key := p.info.Key
	p.sent.set(h, headerIDKey, key.ID)
	p.sent.set(h, headerTenant, key.Tenant)
	p.sent.set(h, headerScopes, key.Scopes.String())
	p.sent.set(h, headerOperation, p.info.Operation.Name)
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
	p.info.asserting = asserting{signer: site.signer, claims: assertion.Claims{
		RequestID: p.info.RequestID, KeyID: key.ID, Nonce: p.request.Credentials.Nonce, Tenant: key.Tenant,
		Scopes: key.Scopes.String(), Operation: p.info.Operation.Name, Digest: p.bodySum,
	}}
	if site.downstream.proxies {
		p.info.asserting.put(p.r)
	}
	return nil
}

// dryRunLetsPass reports whether a dry run only reports a refusal for the reason
// and forwards the request. Ambiguous and oversized requests are refused even
// then, and a body that could not be read cannot be forwarded.
func dryRunLetsPass(reason auth.Reason) bool {
	switch reason {
	case auth.Accepted, auth.UnknownHost, auth.NotFound, auth.BadTarget, auth.MalformedRequest, auth.BodyTooLarge, auth.BodyTimeout, auth.OverBudget, auth.ClientGone,
		auth.InvalidBody, auth.Conflict, auth.InternalError, auth.UpstreamError, auth.UpstreamTimeout:
		return false
	default:
		return true
	}
}

// wouldRefuse holds the outcomes of a dry run by reason.
var wouldRefuse = func() []string {
	names := make([]string, len(auth.Reasons()))
	for _, reason := range auth.Reasons() {
		names[reason] = "would_refuse_" + reason.String()
	}
	return names
}()
