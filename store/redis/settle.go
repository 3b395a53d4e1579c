package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// Settle runs settle.lua on the master of the key's slot. It has its own deadline
// and continues if the client has gone. If the server is new, Settle checks the
// servers first, which raises the replay floor if nonces may have been lost.
func (s *Store) Settle(ctx context.Context, c *store.Claim) (store.Verdict, error) {
	return s.decide(ctx, attempt{Claim: c})
}

// Look runs settle.lua without its writes.
func (s *Store) Look(ctx context.Context, c *store.Claim) (store.Verdict, error) {
	v, err := s.decide(ctx, attempt{Claim: c, look: true})
	v.States, v.OverLimit = [ratelimit.MaxCharges]ratelimit.State{}, false
	return v, err
}

func (s *Store) decide(ctx context.Context, a attempt) (store.Verdict, error) {
	c := a.Claim
	if c.Window > MaxWindow {
		return store.Verdict{}, fmt.Errorf("%w: the window is %v, at most %v are supported on redis", store.ErrUnavailable, c.Window, MaxWindow)
	}
	s.ahead.Store(int64(c.ReplayFloorAhead))
	a.failed, a.maxNonces = c.Failed&^auth.RuleNonce, s.opt.MaxNoncesPerKey
	if late(c) {
		a.failed |= auth.RuleTimestamp
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.SettleTimeout)
	defer cancel()
	for {
		seen := s.servers.view.Load()
		if err := seen.forbids(c.KeyID); err != nil {
			return store.Verdict{}, err
		}
		window := s.windows.atLeast(c)
		a.seen, a.lifeWindow = seen, window
		outcome, reply, err := s.attempt(ctx, a)
		switch {
		case err != nil:
			return store.Verdict{}, err
		case outcome == outcomeServer:
			if err := s.servers.checkAgain(ctx, seen); err != nil {
				return store.Verdict{}, err
			}
			if s.servers.view.Load() == seen {
				return store.Verdict{}, fmt.Errorf("%w: the server %v is none of the masters", store.ErrUnavailable, reply.rest)
			}
		case outcome == outcomeWindow:
			if err := s.windows.learn(c, window, reply); err != nil {
				return store.Verdict{}, err
			}
		case outcome == outcomeClock:
			return store.Verdict{}, fmt.Errorf("%w: the clocks of redis and of this gateway are %d µs apart, at most %v are allowed", store.ErrUnavailable, reply.signed(), maxSkew)
		case outcome == outcomeReplicas:
			return store.Verdict{}, fmt.Errorf("%w: no replica has answered the master for %d s, at most %v are allowed", store.ErrUnavailable, reply.next(), maxLag)
		case outcome == outcomeFull:
			return store.Verdict{}, fmt.Errorf("%w: the key has %d", store.ErrFull, reply.next())
		default:
			return s.verdict(&a, outcome, reply)
		}
	}
}

// attempt runs settle.lua once and returns its reply.
func (s *Store) attempt(ctx context.Context, a attempt) (outcome string, n numbers, err error) {
	reply, err := s.run(ctx, "settling", call{script: s.settling, keys: s.settleKeys(&a), args: a.args()})
	if err != nil {
		return "", n, err
	}
	if outcome, err = text(reply, 0); err != nil {
		return "", n, err
	}
	return outcome, numbers{rest: reply[1:]}, nil
}

// settleKeys returns the Redis keys of the claim. It includes those of the nonces,
// so that a cluster refuses the whole call while it moves the slot.
func (s *Store) settleKeys(a *attempt) []string {
	if s.cluster == nil {
		return []string{s.names.record(a.KeyID), s.names.buckets(a.KeyID)}
	}
	first := a.Now.Add(-maxSkew).UnixMilli() / spanMillis
	last := a.Now.Add(maxSkew+2*a.lifeWindow+11*time.Second).UnixMilli() / spanMillis
	keys := make([]string, 0, 3+last-first)
	keys = append(keys, s.names.record(a.KeyID), s.names.buckets(a.KeyID))
	for span := first; span <= last; span++ {
		keys = append(keys, s.names.nonces(a.KeyID, span))
	}
	return keys
}

// late reports whether the claim fails rule 7 by its own clock reading.
func late(c *store.Claim) bool {
	return c.Timestamp == 0 || !auth.InWindow(c.Now, c.Timestamp, c.Window)
}

// verdict reads the verdict from the reply and notes an acceptance.
func (s *Store) verdict(a *attempt, outcome string, n numbers) (store.Verdict, error) {
	v, now, err := a.read(outcome, n)
	if err != nil {
		return store.Verdict{}, err
	}
	if v.Reason == auth.Accepted && !v.Stale {
		s.servers.accepted(a.KeyID, now)
	}
	return v, nil
}
