package caddymodule

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
	"github.com/card-gateway/card-gateway/explain"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/keys/keyid"
	"github.com/card-gateway/card-gateway/ratelimit"
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
	p.info.writeRefusal(&p.w, refusal)
	p.w.complete()
	if may && !refusal.Shown {
		_ = p.w.FlushError() // on failure the client is gone
		p.account(refusal, now)
	}
	p.info.logRefusal(refusal)
	return nil
}

// reportDryRun explains and logs why a request would have been refused.
func (p *passage) reportDryRun() {
	if now := time.Now(); p.mayExplain(p.info.dryRun.Reason, now) {
		p.account(p.info.dryRun, now)
	}
	p.info.logRefusal(p.info.dryRun)
}

// account finds out what was wrong, for the log, for the memory of refusals and for
// the answer, where that shows it. It runs after the decision and changes neither
// that nor what is counted.
func (p *passage) account(refusal *auth.Refusal, now time.Time) {
	refusal.Signed = p.explainRules(refusal, now)
	p.remember(refusal, now)
}

// mayExplain reports whether the refusal may cost the time of an explanation. With
// generic_messages an unknown key costs the same as a known one: the next answer
// on the connection waits for it.
func (p *passage) mayExplain(reason auth.Reason, now time.Time) bool {
	shares := p.site.state.process.explanations
	switch {
	case reason.Status() >= http.StatusInternalServerError || reason == auth.ClientGone:
		return false
	case reason == auth.UnknownKey && !p.site.GenericMessages:
		return false
	case reason == auth.UnknownKey:
		shares = p.site.state.process.strangers
	}
	return shares.take(p.decision.Request.Credentials.KeyID, held.Holder(p.info.address), now)
}

// explainRules adds to a refusal by one of the rules 7 to 10 what was wrong, and
// returns the request as it arrived; nil for another refusal.
func (p *passage) explainRules(refusal *auth.Refusal, now time.Time) *auth.SignedView {
	c := explain.Case{
		Request: p.decision.Request, Host: p.r.Host, Key: p.info.Key, Failed: p.decision.Failed(), Now: now, Window: p.site.rules.window,
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
	if p.info.body == nil || p.decision.Body.Size > explain.MaxBody {
		return nil
	}
	return p.info.body.OnePiece()
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
		if key, err := p.site.state.keys.Lookup(p.r.Context(), id); err == nil {
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
		p.site.telemetry.audit.explained(key, p.info.RequestID)
	}
}

// remember keeps what the log says of the refusal, for whoever has its request
// id.
func (p *passage) remember(refusal *auth.Refusal, now time.Time) {
	entry := keyadmin.Refusal{
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
	p.site.state.process.refusals.add(entry)
}

// explanationsTotal counts refusals that could be explained.
var explanationsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "card_gateway_explanations_total",
	Help: "Refusals that the gateway could explain, by result: given, or skipped because the key, the address or the process had its share.",
}, []string{"result"})

// The label's closed set.
var explanationResults = []string{"given", "skipped"}

var explanationsGiven, explanationsSkipped = explanationsTotal.WithLabelValues(explanationResults[0]), explanationsTotal.WithLabelValues(explanationResults[1])

// explanationShares divides what explaining refusals may cost, so that nobody
// buys time of the processor with wrong signatures: one a second for a key,
// five for an address and 20 for the process. It is safe for use by many
// goroutines.
type explanationShares struct {
	keys, addresses, process *shareTable
}

func newExplanationShares() *explanationShares {
	aSecond := func(n int64) ratelimit.Limit { return ratelimit.Limit{Count: n, Period: time.Second, Burst: n} }
	return &explanationShares{newShareTable(aSecond(1), 4096), newShareTable(aSecond(5), 4096), newShareTable(aSecond(20), 1)}
}

// take reports whether a refusal may be explained at now, and charges it.
func (e *explanationShares) take(key string, address netip.Prefix, now time.Time) bool {
	ok := e.keys.take(maphash.String(shareSeed, key), now) && e.addresses.take(maphash.Comparable(shareSeed, address), now) && e.process.take(0, now)
	if ok {
		explanationsGiven.Inc()
	} else {
		explanationsSkipped.Inc()
	}
	return ok
}

// A shareTable has a limit for each name. Its size is fixed: names that fall into
// one slot share it.
type shareTable struct {
	charge ratelimit.Charge

	mu     sync.Mutex
	levels []ratelimit.Level
}

// shareSeed keeps callers from choosing names that fall into one slot.
var shareSeed = maphash.MakeSeed()

func newShareTable(limit ratelimit.Limit, slots int) *shareTable {
	return &shareTable{charge: ratelimit.NewCharge("", limit, 1), levels: make([]ratelimit.Level, slots)}
}

// take charges one use to the name that has the hash, and reports whether it had
// one left.
func (t *shareTable) take(name uint64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := &t.levels[name%uint64(len(t.levels))]
	next, ok := t.charge.Decide(*slot, now.UnixMicro())
	*slot = next
	return ok
}

// rememberedRefusals is how many refusals the process remembers. Each has at
// most the 8 KiB of a target and some hundred bytes.
const rememberedRefusals = 512

// refusalMemory is a ring of the last refusals that were explained. It holds no
// secret, no signature and no body, and is lost with the process.
type refusalMemory struct {
	mu   sync.Mutex
	ring [rememberedRefusals]keyadmin.Refusal
	next int
}

func (m *refusalMemory) add(entry keyadmin.Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ring[m.next] = entry
	m.next = (m.next + 1) % len(m.ring)
}

// list returns the newest refusals of a key, at most n, the newest first; of all
// keys and of none for the empty id.
func (m *refusalMemory) list(key string, n int) []keyadmin.Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := []keyadmin.Refusal{}
	for i := range m.ring {
		e := &m.ring[(m.next-1-i+2*len(m.ring))%len(m.ring)]
		if !e.At.IsZero() && (key == "" || e.KeyID == key) && len(found) < n {
			found = append(found, *e)
		}
	}
	return found
}

// find returns the newest refusal with the request id.
func (m *refusalMemory) find(requestID string) (entry keyadmin.Refusal, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.ring {
		e := &m.ring[(m.next-1-i+2*len(m.ring))%len(m.ring)]
		if e.RequestID == requestID && requestID != "" {
			return *e, true
		}
	}
	return keyadmin.Refusal{}, false
}
