package gate

import (
	"crypto/sha256"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/store"
)

// A Body is the body of a request, read once.
type Body struct {
	Read    bool
	Held    *held.Body // nil: it was only hashed. The caller releases it
	Sum     [sha256.Size]byte
	Size    int64
	Waited  time.Duration // until it had arrived
	Dropped bool          // it was not worth holding, because the request would be refused
	failed  auth.Rules    // rule 9, if the hash is another than that of X-Body-Hash
}

// read reads the body, unless the answer is known without it. With generic_messages
// that is so for a wrong signature too: an unknown key is answered before the body, so
// an answer that depends on the body's size or type, or 100 Continue, would show that
// the key exists.
func (g *Gate) read(a *Arrival, d *Decision) (Body, *auth.Refusal) {
	failed := d.Judgement.Failed
	if failed.Has(auth.RuleIP|auth.RuleTimestamp) || g.GenericMessages && !g.DryRun && failed.Has(auth.RuleSignature) {
		return d.Body, nil
	}
	return g.receive(a, d)
}

// receive reads the body once and checks its hash. It refuses a body of a wrong type,
// and one that cannot be read or held. If the signature is wrong, the body is only
// hashed, so that an unproven sender uses no memory.
func (g *Gate) receive(a *Arrival, d *Decision) (Body, *auth.Refusal) {
	body, keep := d.Body, g.DryRun || !d.Judgement.Failed.Has(auth.RuleSignature)
	if body.Read {
		if keep && body.Held == nil && !body.Dropped {
			return body, StoreRefusal(errKeyKeepsChanging)
		}
		return body, nil
	}
	if !g.DryRun {
		if refusal := g.Untyped(a.Request, d.Asked.Operation); refusal != nil {
			return body, g.unlessLocked(a, d, refusal)
		}
	}
	receiver := &d.receiver
	*receiver = held.Receiver{Max: g.MaxBody, Timeout: g.BodyTimeout}
	if d.Asked.Operation.MaxBody > 0 {
		receiver.Max = d.Asked.Operation.MaxBody
	}
	if keep {
		receiver.Look = func() (bool, *auth.Refusal) { return g.lookBeforeBody(a, d) }
		receiver.Memory, receiver.Pooled = g.Bodies.Reserve(held.Caller(d.Key, a.Client)), g.PooledBodies
	}
	start := time.Now()
	received, refusal := receiver.Receive(a.Writer, a.Request)
	body.Waited = time.Since(start)
	if refusal != nil {
		if refusal.Reason == auth.BodyTooLarge {
			refusal = g.unlessLocked(a, d, refusal)
		}
		return body, refusal
	}
	body.Read, body.Held, body.Sum, body.Size = true, received.Body, received.Sum, received.Size
	body.Dropped = keep && received.Body == nil
	if !auth.BodyHashEqual(d.Asked.Request.Credentials.BodyHash, body.Sum) {
		body.failed = auth.RuleBodyHash
	}
	return body, nil
}

// lookBeforeBody asks the store, without writing, how it would decide if the body
// hash were correct. It reports whether the body is worth holding. If the request
// would be refused, the body is only hashed, and settling decides the answer in the
// published order. Only a lock (rule 5) is refused at once.
func (g *Gate) lookBeforeBody(a *Arrival, d *Decision) (worth bool, refusal *auth.Refusal) {
	if g.DryRun {
		return true, nil
	}
	verdict, refusal := g.look(a, d)
	switch {
	case refusal != nil:
		return false, refusal
	case verdict.Reason == auth.KeyLocked:
		return false, g.settleLock(a, d, auth.Refuse(auth.KeyLocked, ""))
	default:
		return verdict.Stale || verdict.Reason == auth.Accepted, nil
	}
}

// unlessLocked returns the refusal of a body by its size or type, or that by rule 5,
// which comes before it. The request settles only if the count has reached the
// threshold; otherwise nothing is settled or counted.
func (g *Gate) unlessLocked(a *Arrival, d *Decision, refusal *auth.Refusal) *auth.Refusal {
	if d.Key == nil {
		return refusal
	}
	verdict, failed := g.look(a, d)
	switch {
	case failed != nil:
		return failed
	case verdict.Reason == auth.KeyLocked:
		return g.settleLock(a, d, refusal)
	default:
		return refusal
	}
}

// look is settle without writing.
func (g *Gate) look(a *Arrival, d *Decision) (verdict store.Verdict, refusal *auth.Refusal) {
	claim, refusal := g.claim(a, d)
	if refusal != nil {
		return verdict, refusal
	}
	d.Claim = claim
	verdict, err := a.Store.Look(a.Context, &d.Claim)
	if err != nil {
		return verdict, StoreRefusal(err)
	}
	return verdict, nil
}

// settleLock settles a request whose key is to be locked, and returns the refusal by
// rule 5, or the given one when the key is not locked after all. The claim says that
// the body was dropped, so that the store accepts nothing and does not count a correct
// request.
func (g *Gate) settleLock(a *Arrival, d *Decision, otherwise *auth.Refusal) *auth.Refusal {
	claim, refusal := g.claim(a, d)
	if refusal != nil {
		return refusal
	}
	claim.BodyDropped = true
	verdict, refusal := g.settleClaim(a, d, claim)
	switch {
	case refusal != nil:
		return refusal
	case verdict.Reason == auth.KeyLocked:
		d.Verdict = verdict
		return d.conclude(g.Window)
	default:
		return otherwise
	}
}
