package caddymodule

import (
	"context"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// decide returns the store's verdict on the claim. Who signs correctly with a
// retired secret is no stranger, so its failure is not counted: the store is
// asked without writing. It settles only what would be refused and written in
// the same way with a live secret, such as the lock by rule 5.
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

// explainRetired says for the log that the client signs with a secret that has
// ended.
func explainRetired(s *auth.Secret) string {
	return "the client still signs with secret version " + strconv.Itoa(s.Version()) + ", retired at " + s.Expires().UTC().Format(time.RFC3339)
}
