package gate

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// settle lets the store decide everything that needs shared state.
func (g *Gate) settle(a *Arrival, d *Decision) (store.Verdict, *auth.Refusal) {
	claim, refusal := g.claim(a, d)
	if refusal != nil {
		return store.Verdict{}, refusal
	}
	return g.settleClaim(a, d, claim)
}

// claim returns the claim of the request as it was judged, with the current time. The
// refusal is for a key that has expired meanwhile.
func (g *Gate) claim(a *Arrival, d *Decision) (store.Claim, *auth.Refusal) {
	key, now := d.Key, time.Now()
	if !key.ExpiresAt.IsZero() && !now.Before(key.ExpiresAt) {
		return store.Claim{}, &auth.Refusal{Reason: auth.KeyExpired, Log: "the key expired while the body arrived"}
	}
	claim := store.Claim{
		KeyID: key.ID, From: auth.Holder(a.Client), Revision: key.Revision, NextRevision: g.NextRevision(),
		SecretVersion: d.Judgement.SecretVersion,
		Now:           now, Timestamp: d.Asked.Request.Credentials.Unix,
		Window: g.Window, ReplayFloorAhead: g.FloorAhead,
		Nonce:     auth.NonceDigest(d.Asked.Request.Credentials.Nonce),
		Failed:    d.Failed(),
		LockAfter: g.LockAfter, LockDuration: g.LockDuration, LockCounts: g.LockCounts,
		DryRun:      g.DryRun,
		BodyDropped: d.Body.Dropped,
	}
	if a.Limited {
		claim.Charges = g.Limits.AppendCharges(d.charges[:0], d.Asked.Operation.Name, key.Limits, now)
		claim.LimitsDryRun = a.LimitsDryRun
	}
	return claim, nil
}

// settleClaim returns the store's verdict on the claim. A client that signs correctly
// with a retired secret is no stranger, so its failure is not counted: the store is
// asked without writing. Such a request is settled only if it would be refused and
// written in the same way with a live secret, such as the lock by rule 5.
func (g *Gate) settleClaim(a *Arrival, d *Decision, claim store.Claim) (verdict store.Verdict, refusal *auth.Refusal) {
	var err error
	d.Claim = claim
	writes := d.Judgement.Retired == nil || g.DryRun
	if !writes {
		verdict, err = a.Store.Look(a.Context, &d.Claim)
		writes = err == nil && !verdict.Stale && verdict.Reason != auth.SignatureMismatch &&
			(verdict.Reason == auth.KeyLocked || auth.Counts(verdict.Reason, claim.Failed&^auth.RuleSignature, claim.LockCounts))
	}
	if writes {
		verdict, err = a.Store.Settle(a.Context, &d.Claim)
	}
	if err != nil {
		return verdict, StoreRefusal(err)
	}
	return verdict, nil
}

// Secret returns the secret that verified the signature; nil: none did, or the body is
// another one than was signed.
func (d *Decision) Secret() *auth.Secret {
	if d.Key != nil && d.Judgement.SecretVersion > 0 && !d.Failed().Has(auth.RuleBodyHash) {
		for _, secret := range d.Key.Secrets {
			if secret.Version() == d.Judgement.SecretVersion {
				return secret
			}
		}
	}
	return nil
}

// conclude ends the decision with the verdict, and returns its refusal; nil for an
// accepted request.
func (d *Decision) conclude(window time.Duration) *auth.Refusal {
	v := &d.Verdict
	d.Settled, d.States = true, v.States[:len(d.Claim.Charges)]
	if v.Reason == auth.Accepted {
		return nil
	}
	refusal := &auth.Refusal{Reason: v.Reason, Log: d.logText(window), Details: d.details(), RetryAfter: v.RetryAfter}
	if v.Reason == auth.RateLimited {
		var retry time.Duration
		if len(d.States) > 0 {
			retry = d.States[ratelimit.Tightest(d.States)].Retry
		}
		refusal.RetryAfter = max(retry, time.Second)
	}
	return refusal
}

// details names for a signed caller which scope the request needs, or which limit was
// reached.
func (d *Decision) details() []auth.FieldError {
	finding := func(name, message string) []auth.FieldError {
		return []auth.FieldError{{Finding: name, Message: message}}
	}
	switch d.Verdict.Reason {
	case auth.ScopeMissing:
		if d.Asked.Operation.Name == auth.OtherOperation {
			return finding("no_operation", "No operation of this gateway has this method and path; look for a typing mistake. Only a key with the scope * may use other paths")
		}
		return finding("scope", "The operation "+d.Asked.Operation.Name+" needs the scope "+d.Asked.Request.Scope+" for this method and path")
	case auth.RateLimited:
		state := &d.Verdict.States[ratelimit.Tightest(d.States)]
		return finding("limit", "The limit "+state.Bucket+" of this key is used up; it holds "+strconv.FormatInt(state.Limit, 10)+" at most")
	}
	return nil
}

// logText returns the details of the verdict for the log, or "" if the reason alone
// is enough.
func (d *Decision) logText(window time.Duration) string {
	switch d.Verdict.Reason {
	case auth.TimestampOutOfWindow:
		return d.timestampText(window)
	case auth.ReplayFloor:
		return "the store may have lost the nonces of that moment"
	case auth.SignatureMismatch:
		if s := d.Judgement.Retired; s != nil {
			return "the client still signs with secret version " + strconv.Itoa(s.Version()) + ", retired at " + s.Expires().UTC().Format(time.RFC3339)
		}
	case auth.ScopeMissing:
		return "the request needs the scope " + d.Asked.Request.Scope
	case auth.RateLimited:
		return "the bucket " + d.Claim.Charges[ratelimit.Tightest(d.States)].Bucket + " is empty"
	}
	return ""
}

// timestampText returns why rule 7 failed: the timestamp is not valid, it is too far
// from the clock, or it is older than the copy of the key to this store.
func (d *Decision) timestampText(window time.Duration) string {
	stamp := d.Asked.Request.Credentials.Unix
	switch off := d.Claim.Now.Unix() - stamp; {
	case stamp == 0:
		return "X-Timestamp is not a number of ten digits"
	case auth.InWindow(d.Claim.Now, stamp, window):
		return "the nonces of that moment stayed in the store that the key was copied from"
	case off < 0:
		return "X-Timestamp is " + strconv.FormatInt(-off, 10) + " s ahead of our clock"
	default:
		return "X-Timestamp is " + strconv.FormatInt(off, 10) + " s behind our clock"
	}
}

// Buckets are the buckets that the requests of a key are charged to: one for each
// operation that it may call, and last the one for all of them, if there is a limit
// on that.
type Buckets struct {
	Operations []*auth.Operation
	Rates      []string // of each bucket, as an operator writes it: "60/1m burst 20"

	key     string
	charges []ratelimit.Charge
}

// BucketsOf returns the buckets of a key, with the limits that hold at now.
func BucketsOf(table *auth.Table, limits *ratelimit.Policy, key *auth.Key, now time.Time) (b Buckets) {
	b.key = key.ID
	for _, operation := range table.Operations() {
		if slices.ContainsFunc(operation.Scopes, key.Scopes.Has) {
			b.Operations = append(b.Operations, operation)
			b.add(operation.Name, limits.Limit(operation.Name, key.Limits, now))
		}
	}
	if total, limited := limits.TotalLimit(key.Limits, now); limited {
		b.add(ratelimit.NameTotal, total)
	}
	return b
}

func (b *Buckets) add(bucket string, limit ratelimit.Limit) {
	b.charges = append(b.charges, ratelimit.NewCharge(bucket, limit, limit.Cost))
	b.Rates = append(b.Rates, limit.String())
}

// Levels returns what is left of each bucket at now. It charges nothing. The errors
// are those of the backend.
func (b *Buckets) Levels(ctx context.Context, backend store.Backend, now time.Time) ([]ratelimit.State, error) {
	return backend.Levels(ctx, b.key, b.charges, now)
}
