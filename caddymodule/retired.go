package caddymodule

import (
	"context"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

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

// explainRetired returns the log text for a client that signs with a retired
// secret.
func explainRetired(s *auth.Secret) string {
	return "the client still signs with secret version " + strconv.Itoa(s.Version()) + ", retired at " + s.Expires().UTC().Format(time.RFC3339)
}
