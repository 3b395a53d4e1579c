// Package gate decides about one request: may it pass? It knows no Caddy, writes no
// answer and counts nothing. Begin with [Gate.Decide].
package gate

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// A Gate has what all requests of one card_auth are decided by. It does not change
// while it decides.
type Gate struct {
	Keys       Keys
	Table      *auth.Table
	AnswersOwn bool            // nothing behind asks an issuer: the gateway's own operations exist
	Other      *auth.Operation // the operation of a request that has none
	// Untyped returns the refusal of a body whose type the operation does not take;
	// nil: it takes it.
	Untyped func(r *http.Request, operation *auth.Operation) *auth.Refusal
	// Start starts the store, unless it runs.
	Start func(ctx context.Context) error
	// NextRevision returns the revision of a record that the request may lock.
	NextRevision func() string

	Limits       *ratelimit.Policy
	Window       time.Duration
	FloorAhead   time.Duration // replay_floor_ahead
	LockAfter    int
	LockDuration time.Duration
	LockCounts   auth.Rules

	Bodies          *held.Memory
	MaxBody         int64 // bytes, for operations without their own
	BodyTimeout     time.Duration
	PooledBodies    bool // see held.Receiver
	GenericMessages bool
	DryRun          bool
}

// Keys finds keys. The errors are store.ErrNotFound, keys.ErrLookupBudget, and those
// of the store.
type Keys interface {
	// Lookup may return a record of some seconds ago.
	Lookup(ctx context.Context, id string) (*auth.Key, error)
	// Fresh returns the record as it is now.
	Fresh(ctx context.Context, id string) (*auth.Key, error)
}

// A Settler is the store, for one request.
type Settler interface {
	Settle(ctx context.Context, claim *store.Claim) (store.Verdict, error)
	// Look is Settle without writing.
	Look(ctx context.Context, claim *store.Claim) (store.Verdict, error)
}

// An Arrival is a request as it came, before any handler has changed it.
type Arrival struct {
	Writer         http.ResponseWriter
	Request        *http.Request
	Context        context.Context // for the store: it does not end when the client has gone
	Method, Target string
	Client         netip.Addr    // zero: not known
	Fault          *auth.Refusal // what is wrong with the proxies on its way; nil: nothing
	Store          Settler
	Limited        bool // by the limits
	LimitsDryRun   bool
}

// A Decision is what was found out about a request, as far as it was necessary.
// Nothing changes it afterwards.
type Decision struct {
	Asked
	Judged
	Body    Body
	Verdict store.Verdict // valid if Settled
	Settled bool
	Claim   store.Claim       // the last one
	States  []ratelimit.State // of the buckets that the request is charged to

	Refusal *auth.Refusal // nil: the request may pass
	DryRun  *auth.Refusal // why it would not pass, had the gate not been in dry run

	charges  [ratelimit.MaxCharges]ratelimit.Charge
	receiver held.Receiver
}

// Failed returns the rules that the request fails, of those that need no shared state.
func (d *Decision) Failed() auth.Rules { return d.Judgement.Failed | d.Body.failed }

// attempts is how often a request is judged. If its key was changed each time
// meanwhile, the gate gives up with 503.
const attempts = 3

// Decide decides about a request, in the order that is published.
func (g *Gate) Decide(a *Arrival, d *Decision) {
	refusal := g.decide(a, d)
	if refusal != nil && g.letsPass(a, refusal) {
		d.DryRun, refusal = refusal, g.passUnjudged(a, d)
		if refusal != nil {
			d.DryRun = nil
		}
	}
	d.Refusal = refusal
}

func (g *Gate) decide(a *Arrival, d *Decision) (refusal *auth.Refusal) {
	if d.Asked, refusal = g.parse(a); refusal != nil { // target, method, headers, operation; no key, no clock
		return refusal
	}
	find := g.Keys.Lookup
	for range attempts { // again, with a fresh key, when it was changed meanwhile
		if d.Judged, refusal = g.judge(a, &d.Asked, find); refusal != nil { // key and clock: rules 2 to 4, 6, 7, 10, the scope
			return refusal
		}
		if d.Body, refusal = g.read(a, d); refusal != nil { // counted memory and hash: rule 9
			return refusal
		}
		if d.Verdict, refusal = g.settle(a, d); refusal != nil { // what only shared state can decide
			return refusal
		}
		if !d.Verdict.Stale {
			return d.conclude(g.Window)
		}
		find = g.Keys.Fresh
	}
	return StoreRefusal(errKeyKeepsChanging)
}

// letsPass reports whether the request is forwarded although it is refused.
func (g *Gate) letsPass(a *Arrival, refusal *auth.Refusal) bool {
	return g.DryRun && a.Request.Method != http.MethodConnect && DryRunPasses(refusal.Reason)
}

// DryRunPasses reports whether a dry run only reports a refusal for the reason and
// forwards the request. Ambiguous and oversized requests are refused even then, and a
// body that could not be read cannot be forwarded.
func DryRunPasses(reason auth.Reason) bool {
	switch reason {
	case auth.Accepted, auth.UnknownHost, auth.NotFound, auth.BadTarget, auth.MalformedRequest, auth.BodyTooLarge, auth.BodyTimeout, auth.OverBudget, auth.ClientGone,
		auth.InvalidBody, auth.Conflict, auth.InternalError, auth.UpstreamError, auth.UpstreamTimeout:
		return false
	default:
		return true
	}
}

// passUnjudged reads the body of a request that a dry run forwards although it would
// be refused.
func (g *Gate) passUnjudged(a *Arrival, d *Decision) (refusal *auth.Refusal) {
	if d.Asked.Operation == nil {
		d.Asked.Operation = g.Other
	}
	d.Body, refusal = g.receive(a, d)
	return refusal
}
