package file

import (
	"context"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// Look implements store.Backend.
func (s *Store) Look(_ context.Context, c *store.Claim) (v store.Verdict, err error) {
	st := s.state.Load()
	if st == nil || st.journal == nil {
		return v, errNotStarted
	}
	k := st.key(c.KeyID)
	if k == nil {
		return store.Verdict{Stale: true}, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var found finding
	if v.Stale, found = k.find(st, c); v.Stale {
		return v, nil
	}
	v.Reason, v.Failures, v.RetryAfter = found.reason, k.failures, found.retryAfter
	if v.Reason == auth.Accepted {
		var after [ratelimit.MaxCharges]bucket
		if len(c.Charges) > len(after) {
			return v, errCharges
		}
		var charged store.Verdict
		k.charge(st, c, &charged, &after)
		if charged.OverLimit && !c.LimitsDryRun || c.BodyDropped {
			v.Reason = auth.RateLimited
		}
	}
	return v, nil
}

// Levels implements store.Backend.
func (s *Store) Levels(_ context.Context, keyID string, charges []ratelimit.Charge, now time.Time) ([]ratelimit.State, error) {
	st := s.state.Load()
	if st == nil || st.journal == nil {
		return nil, errNotStarted
	}
	levels := make([]ratelimit.Level, len(charges))
	steady := st.limits.at(now)
	if k := st.key(keyID); k != nil {
		k.mu.Lock()
		for i := range charges {
			if j := k.bucket(charges[i].Bucket); j >= 0 {
				levels[i] = k.buckets[j].level
				bound(&levels[i], &charges[i], steady)
			}
		}
		k.mu.Unlock()
	}
	wall := now.UnixMicro()
	states := make([]ratelimit.State, len(charges))
	for i, level := range levels {
		level.At += wall - steady
		charges[i].Describe(&states[i], level, wall, true)
	}
	return states, nil
}

// A finding is the result of steps 2 to 6 of the contract, before anything is
// written.
type finding struct {
	reason     auth.Reason // Accepted: the buckets decide
	retryAfter time.Duration
	slot       nonceSlot  // of the nonce, if it is recorded
	known      *nonceSlot // the slot that the nonce has already, dead or alive
}

// find does steps 1 to 6 of the contract for a claim.
func (k *keyState) find(st *state, c *store.Claim) (stale bool, f finding) {
	stored := k.stored.Load()
	if stored == nil || stored.record.Revision != c.Revision {
		return true, f
	}
	if k.failures >= c.LockAfter {
		f.reason = auth.KeyLocked
		return false, f
	}
	now := clampSeconds(c.Now.Unix())
	f.slot = makeSlot(&c.Nonce, c.Timestamp, deathOf(c))
	f.known = k.nonces.find(&f.slot)
	rest := c.Failed & (auth.RuleBodyHash | auth.RuleSignature | auth.RuleScope)
	switch {
	case c.Failed.Has(auth.RuleIP):
		f.reason = auth.IPNotAllowed
	case c.Failed.Has(auth.RuleTimestamp) || !auth.InWindow(c.Now, c.Timestamp, c.Window):
		f.reason = auth.TimestampOutOfWindow
	case f.known != nil && f.known.death > now:
		f.reason = auth.ReplayedNonce
	case rest != 0:
		f.reason = rest.First()
	default:
		floor, lost := st.mayBeLost(c)
		// A dead nonce with the same digest counts as dropped.
		if f.known != nil && c.Timestamp <= int64(f.known.stamp) && floor.Unix() < int64(f.known.stamp) {
			floor, lost = time.Unix(int64(f.known.stamp), 0), true
		}
		if lost {
			f.reason, f.retryAfter = auth.ReplayFloor, c.UntilAfter(floor)
		}
	}
	return false, f
}

// Local returns true: reading methods answer from memory.
func (s *Store) Local() bool { return true }
