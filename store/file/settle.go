package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file/journal"
)

var (
	errNotStarted = fmt.Errorf("%w: it is not started, or closed", store.ErrUnavailable)
	errCharges    = errors.New("more charges than a claim may hold")
)

// Settle implements store.Backend. It uses the times of the claim. State that
// must survive is written to the journal before the state in memory changes. An
// error leaves both unchanged.
func (s *Store) Settle(_ context.Context, c *store.Claim) (v store.Verdict, err error) {
	st := s.state.Load()
	if st == nil || st.journal == nil {
		return v, errNotStarted
	}
	k := st.key(c.KeyID)
	if k == nil {
		v.Stale = true
		return v, nil
	}
	err = k.settle(st, c, &v)
	if errors.Is(err, store.ErrFull) && st.makeRoom(k, c.Now.Unix()) {
		v = store.Verdict{}
		err = k.settle(st, c, &v)
	}
	return v, err
}

// settle does the steps of the contract in their order. The verdict v must be
// zero when it is called.
func (k *keyState) settle(st *state, c *store.Claim, v *store.Verdict) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	stale, found := k.find(st, c)
	if stale {
		v.Stale = true
		return nil
	}
	if found.known.known() && found.known.dead(c.Now.Unix()) {
		st.forget(found.known.stamp) // as if it had been dropped already
	}
	switch found.reason {
	case auth.Accepted:
		return k.accept(st, c, v, &found)
	case auth.KeyLocked:
		return k.lock(st, c, v)
	case auth.ReplayFloor:
		v.Reason, v.RetryAfter, v.Failures = found.reason, found.retryAfter, k.failures
		return nil
	default:
		return k.refuse(st, c, v, found.reason)
	}
}

// deathOf returns when the nonce of a request that is accepted now dies, in
// Unix seconds, rounded up.
func deathOf(c *store.Claim) int64 {
	return c.Now.Add(auth.NonceLifetime(c.Now, c.Timestamp, c.Window) + time.Second - 1).Unix()
}

// lock writes the lock into the record, unless this is a dry run.
func (k *keyState) lock(st *state, c *store.Claim, v *store.Verdict) error {
	v.Reason, v.Failures = auth.KeyLocked, k.failures
	if c.DryRun {
		return nil
	}
	before := k.stored.Load().record
	lock := &auth.Lock{At: c.Now.UTC().Round(0), Until: c.LockEnd().UTC().Round(0), Failures: k.failures}
	e := journal.Entry{
		Kind: journal.KindLocked, Now: c.Now.Unix(), Key: k.id, Failures: int64(k.failures),
		First: lock.At.UnixNano(), Extra: joinRevisions(before.Revision, c.NextRevision),
	}
	if !lock.Until.IsZero() {
		e.Second = lock.Until.UnixNano()
	}
	after, err := withLock(before, lock, c.NextRevision)
	if err != nil {
		return err
	}
	if err := k.append(st, &e); err != nil {
		return err
	}
	k.stored.Store(after)
	k.unfolded = true
	st.unfolded.Store(true)
	st.journal.Nudge()
	k.setFailures(0)
	v.Failures, v.Locked = 0, true
	return nil
}

// refuse sets the reason and raises the count if the request counts.
func (k *keyState) refuse(st *state, c *store.Claim, v *store.Verdict, reason auth.Reason) error {
	if !c.DryRun && auth.Counts(reason, c.Failed, c.LockCounts) {
		parts, counted := k.withFailure(c)
		if v.Uncounted = !counted; counted {
			e := journal.Entry{Kind: journal.KindCounted, Now: c.Now.Unix(), Key: k.id, Failures: int64(k.failures) + 1}
			if len(parts) > 0 {
				e.Extra = string((&origins{k.accepted, parts}).appendTo(nil))
			}
			if err := k.append(st, &e); err != nil {
				return err
			}
			k.failures++
			k.parts = parts
		}
	}
	v.Reason, v.Failures = reason, k.failures
	return nil
}

// accept charges the buckets and records the nonce, or refuses for want of
// room in a bucket, or because the body was dropped.
func (k *keyState) accept(st *state, c *store.Claim, v *store.Verdict, found *finding) error {
	var after [ratelimit.MaxCharges]journal.Bucket
	if len(c.Charges) > len(after) {
		return errCharges
	}
	behind := k.charge(st, c, v, &after)
	if v.OverLimit && !c.LimitsDryRun || c.BodyDropped {
		v.Reason, v.Failures = auth.RateLimited, k.failures
		return nil
	}
	if !found.known.known() && !k.takeRoom(st) {
		return store.ErrFull
	}
	e := journal.Entry{
		Kind: journal.KindAccepted, Now: c.Now.Unix(), First: int64(found.nonce.stamp), Second: int64(found.nonce.death),
		Version: int32(c.SecretVersion), Nonce: c.Nonce, Key: k.id,
	}
	if c.DryRun {
		e.Failures = int64(k.failures)
	}
	noted, changed := k.noted(c)
	if changed {
		e.Extra = string(appendPairs(nil, noted[:]))
	}
	if !v.OverLimit {
		e.Buckets, e.Ahead = after[:len(c.Charges)], behind
	}
	if err := k.append(st, &e); err != nil {
		if !found.known.known() {
			st.live.Add(-1)
		}
		return err
	}
	k.keepNonce(c.Nonce, found.nonce)
	for i := range e.Buckets {
		k.setBucket(e.Buckets[i])
	}
	k.setFailures(int(e.Failures))
	k.accepted = noted
	k.use(c.SecretVersion, c.Now.Unix())
	v.Failures = k.failures
	return nil
}

// charge decides on all buckets. It sets the verdict's states, and after to the
// buckets as they are if all have room. It returns by how many microseconds the
// steady clock is behind the wall clock.
func (k *keyState) charge(st *state, c *store.Claim, v *store.Verdict, after *[ratelimit.MaxCharges]journal.Bucket) (behind int64) {
	if len(c.Charges) == 0 {
		return 0
	}
	wall, now := c.Now.UnixMicro(), st.limits.at(c.Now)
	behind = wall - now
	var before [ratelimit.MaxCharges]ratelimit.Level
	var fits [ratelimit.MaxCharges]bool
	for i := range c.Charges {
		ch := &c.Charges[i]
		if j := k.bucket(ch.Bucket); j >= 0 {
			bound(&k.buckets[j].Level, ch, now)
			before[i] = k.buckets[j].Level
		}
		after[i].Name, after[i].Drain = ch.Bucket, ch.Drain
		after[i].Level, fits[i] = ch.Decide(before[i], now)
		v.OverLimit = v.OverLimit || !fits[i]
	}
	for i := range c.Charges {
		level := after[i].Level
		if v.OverLimit || c.BodyDropped {
			level = before[i]
		}
		level.At += behind
		c.Charges[i].Describe(&v.States[i], level, wall, fits[i])
	}
	return behind
}

// append writes an entry of this key into the journal.
func (k *keyState) append(st *state, e *journal.Entry) error {
	segment, err := st.journal.Append(e)
	if err == nil && k.carried == 0 {
		k.carried = segment
	}
	return err
}

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
		var after [ratelimit.MaxCharges]journal.Bucket
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
				levels[i] = k.buckets[j].Level
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
	nonce      nonce // as it is recorded, if it is
	known      nonce // what is recorded of it already, dead or alive
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
	f.nonce, f.known = newNonce(c.Timestamp, deathOf(c)), k.nonces[c.Nonce]
	rest := c.Failed & (auth.RuleBodyHash | auth.RuleSignature | auth.RuleScope)
	switch {
	case c.Failed.Has(auth.RuleIP):
		f.reason = auth.IPNotAllowed
	case c.Failed.Has(auth.RuleTimestamp) || c.Late():
		f.reason = auth.TimestampOutOfWindow
	case f.known.known() && !f.known.dead(c.Now.Unix()):
		f.reason = auth.ReplayedNonce
	case rest != 0:
		f.reason = rest.First()
	default:
		floor, lost := st.mayBeLost(c)
		// A dead nonce with the same digest counts as dropped.
		if f.known.known() && c.Timestamp <= int64(f.known.stamp) && floor.Unix() < int64(f.known.stamp) {
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
