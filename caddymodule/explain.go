package caddymodule

import (
	"net/http"
	"time"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/explain"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/keys/keyid"
)

// refuse answers a refused request and logs it. An answer that says what was wrong
// waits until that is found out. Every other one is sent first, so that it is the
// published one to the byte and comes in the same time, explained or not.
func (p *passage) refuse(refusal *auth.Refusal) error {
	now := time.Now()
	may := p.mayExplain(refusal.Reason, now)
	if may && p.shows(refusal.Reason, now) {
		refusal.Shown = true
		p.account(refusal, now)
		p.auditShown()
	}
	if !p.decision.Body.Read {
		held.DiscardRest(&p.w, p.r)
	}
	p.info.WriteRefusal(&p.w, refusal)
	p.w.Complete()
	if may && !refusal.Shown {
		_ = p.w.FlushError() // on failure the client is gone
		p.account(refusal, now)
	}
	p.info.LogRefusal(refusal)
	return nil
}

// reportDryRun explains and logs why a request would have been refused.
func (p *passage) reportDryRun() {
	if now := time.Now(); p.mayExplain(p.info.DryRun.Reason, now) {
		p.account(p.info.DryRun, now)
	}
	p.info.LogRefusal(p.info.DryRun)
}

// account finds out what was wrong, for the log, for the memory of refusals and for
// the answer, where that shows it. It runs after the decision and changes neither
// that nor what is counted.
func (p *passage) account(refusal *auth.Refusal, now time.Time) {
	refusal.Signed = p.explainRules(refusal, now)
	p.remember(refusal, now)
}

// mayExplain reports whether the refusal may cost the time of an explanation. It is
// charged to the key only if that has signed the request. Else anybody can name the key, so
// the address is charged. With generic_messages the next answer on the connection waits for
// an explanation, so unproven requests share alike whether the key exists or not.
func (p *passage) mayExplain(reason auth.Reason, now time.Time) bool {
	process, key, generic := p.site.state.process, p.info.Key, p.site.GenericMessages
	switch {
	case reason.Status() >= http.StatusInternalServerError || reason == auth.ClientGone:
		return false
	case reason == auth.UnknownKey && !generic:
		return false
	case key == nil && reason == auth.MissingHeaders && keyid.ModeOf(p.decision.Request.Credentials.KeyID) == keyid.Test && !generic:
		key = p.claimedKey()
	}
	proven, shares := "", process.Claims
	switch signed := p.info.Key != nil && !p.decision.Failed().Has(auth.RuleSignature); {
	case signed && keyid.ModeOf(key.ID) == keyid.Test:
		proven, shares = key.ID, process.Tests
	case signed:
		proven, shares = key.ID, process.Explanations
	case key == nil || generic:
		shares = process.Strangers
	}
	return shares.Take(proven, auth.Holder(p.info.Address), now)
}

// explainRules adds to a refusal by one of the rules 7 to 10 what was wrong, and
// returns the request as it arrived; nil for another refusal.
func (p *passage) explainRules(refusal *auth.Refusal, now time.Time) *auth.SignedView {
	c := explain.Case{
		Request: p.decision.Request, Host: p.r.Host, Key: p.info.Key, Failed: p.decision.Failed(), Now: now, Window: p.site.settings.Window,
	}
	switch refusal.Reason {
	case auth.TimestampOutOfWindow:
		c.Failed |= auth.RuleTimestamp
	case auth.ReplayedNonce:
		c.Failed |= auth.RuleNonce
	case auth.BodyHashMismatch, auth.SignatureMismatch:
	case auth.UnknownKey: // for the time that it takes
		c.Key, c.Failed = new(auth.Key), auth.RuleSignature
	default:
		return nil
	}
	if body := &p.decision.Body; body.Read {
		c.Body = &explain.Body{Size: body.Size, Sum: body.Sum, Bytes: p.heldBytes()}
	}
	found, view := explain.Explain(&c), c.View()
	if refusal.Reason == auth.UnknownKey {
		return nil
	}
	if len(found) > 0 {
		refusal.Log = explain.Sentences(found)
	}
	for _, f := range found {
		refusal.Details = append(refusal.Details, auth.FieldError{Finding: f.Kind.String(), Message: f.Text()})
	}
	return view
}

// heldBytes returns a body that is held and small, else nil.
func (p *passage) heldBytes() []byte {
	if p.info.Body == nil || p.decision.Body.Size > explain.MaxBody {
		return nil
	}
	return p.info.Body.OnePiece()
}

// shows reports whether the answer says what was wrong: for a test key, and for
// a live one until its debug_until.
func (p *passage) shows(reason auth.Reason, now time.Time) bool {
	if p.site.GenericMessages || reason.Status() != http.StatusUnauthorized {
		return false
	}
	key := p.info.Key
	if reason == auth.MissingHeaders {
		key = p.claimedKey()
	}
	return key != nil && (keyid.ModeOf(key.ID) == keyid.Test || now.Before(key.DebugUntil))
}

// claimedKey returns the key that a request without all five headers names.
func (p *passage) claimedKey() *auth.Key {
	if id := p.decision.Request.Credentials.KeyID; id != "" && p.site.state.started.Load() {
		if key, err := p.site.state.keys.Lookup(p.arrival.Context, id); err == nil {
			return key
		}
	}
	return nil
}

// auditShown writes to the audit log that the answer to a live key shows what
// was wrong.
func (p *passage) auditShown() {
	key := p.info.Key
	if key == nil {
		key = p.claimedKey()
	}
	if key != nil && keyid.ModeOf(key.ID) != keyid.Test {
		p.site.telemetry.audit.Explained(key, p.info.RequestID)
	}
}

// remember keeps what the log says of the refusal, for whoever has its request
// id.
func (p *passage) remember(refusal *auth.Refusal, now time.Time) {
	entry := adminapi.Refusal{
		RequestID: p.info.RequestID, At: now.UTC().Truncate(time.Millisecond), Status: refusal.Reason.Status(),
		Reason: refusal.Reason.String(), Message: refusal.Text(), Client: p.info.Client, Detail: refusal.Log, Findings: refusal.Details,
	}
	if p.info.Operation != nil {
		entry.Operation = p.info.Operation.Name
	}
	if p.info.Key != nil {
		entry.KeyID, entry.Tenant = p.info.Key.ID, p.info.Key.Tenant
	}
	if refusal.Signed != nil {
		entry.SignedView = *refusal.Signed
		entry.StringToSign = cardlog.MaskLines(entry.StringToSign)
	}
	p.site.state.process.Refusals.Add(entry)
}
