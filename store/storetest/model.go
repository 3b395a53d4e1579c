package storetest

import (
	"maps"
	"net/netip"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// A model does what a backend should do, with plain maps and the steps of
// Settle in the order of the contract. It is slow and simple. Its only clock is
// the one in the claim.
type model struct {
	keys  map[string]*modelKey
	floor time.Time // up to here nonces may have been lost; zero: never
}

type modelKey struct {
	record   *store.Record // nil: there is none
	failures int
	nonces   map[[16]byte]time.Time // the end of their life
	levels   map[string]ratelimit.Level
	lastUsed map[int]time.Time
	accepted map[netip.Prefix]time.Time // when last
	parts    map[netip.Prefix]int       // of the failures
}

func newModel() *model { return &model{keys: map[string]*modelKey{}} }

func (m *model) key(id string) *modelKey {
	k := m.keys[id]
	if k == nil {
		k = &modelKey{nonces: map[[16]byte]time.Time{}}
		k.forget()
		m.keys[id] = k
	}
	return k
}

// forget drops everything except the nonces.
func (k *modelKey) forget() {
	k.record = nil
	k.failures = 0
	k.levels = map[string]ratelimit.Level{}
	k.lastUsed = map[int]time.Time{}
	k.accepted, k.parts = map[netip.Prefix]time.Time{}, map[netip.Prefix]int{}
}

func (m *model) put(r *store.Record, opt store.PutOptions) {
	k := m.key(r.ID)
	if opt.ClearFailures || k.record == nil {
		k.failures = 0
	}
	k.record = r.Clone()
}

func (m *model) delete(id string) { m.key(id).forget() }

func (m *model) settle(c *store.Claim) store.Verdict {
	k := m.key(c.KeyID)
	if k.record == nil || k.record.Revision != c.Revision {
		return store.Verdict{Stale: true}
	}

	if k.failures >= c.LockAfter { // rule 5
		return k.lock(c)
	}

	// Rules 6 to 10 and 12.
	late := c.Failed.Has(auth.RuleTimestamp) || outside(c.Now, c.Timestamp, c.Window)
	seen := c.Now.Before(k.nonces[c.Nonce])
	switch {
	case c.Failed.Has(auth.RuleIP):
		return k.refuse(c, auth.IPNotAllowed)
	case late:
		return k.refuse(c, auth.TimestampOutOfWindow)
	case seen:
		return k.refuse(c, auth.ReplayedNonce)
	case c.Failed.Has(auth.RuleBodyHash):
		return k.refuse(c, auth.BodyHashMismatch)
	case c.Failed.Has(auth.RuleSignature):
		return k.refuse(c, auth.SignatureMismatch)
	case c.Failed.Has(auth.RuleScope):
		return k.refuse(c, auth.ScopeMissing)
	case m.underFloor(c):
		return store.Verdict{Reason: auth.ReplayFloor, Failures: k.failures, RetryAfter: m.untilFloorPasses(c)}
	}

	return k.accept(c)
}

// accept charges all buckets or none, and records the nonce.
func (k *modelKey) accept(c *store.Claim) store.Verdict {
	v := k.charge(c)
	if v.OverLimit && !c.LimitsDryRun || c.BodyDropped {
		v.Reason = auth.RateLimited
		v.Failures = k.failures
		return v
	}
	k.nonces[c.Nonce] = c.Now.Add(lifetime(c))
	if !c.DryRun {
		k.failures = 0
		k.accepted[c.From] = c.Now
	}
	if c.SecretVersion != 0 {
		k.lastUsed[c.SecretVersion] = c.Now.Truncate(time.Minute)
	}
	v.Failures = k.failures
	return v
}

func (k *modelKey) lock(c *store.Claim) store.Verdict {
	if c.DryRun {
		return store.Verdict{Reason: auth.KeyLocked, Failures: k.failures}
	}
	k.record.Lock = &auth.Lock{At: c.Now, Until: c.LockEnd(), Failures: k.failures}
	k.record.Revision = c.NextRevision
	k.failures = 0
	return store.Verdict{Reason: auth.KeyLocked, Locked: true}
}

// counts reports whether a refusal by one of rules 6 to 10 or 12 raises the
// failure count.
func counts(c *store.Claim, reason auth.Reason) bool {
	unsigned := c.Failed.Has(auth.RuleSignature)
	switch reason {
	case auth.IPNotAllowed:
		return c.LockCounts.Has(auth.RuleIP)
	case auth.TimestampOutOfWindow:
		return unsigned || c.LockCounts.Has(auth.RuleTimestamp)
	case auth.ReplayedNonce:
		return unsigned || c.LockCounts.Has(auth.RuleNonce)
	default:
		return reason != auth.ScopeMissing
	}
}

func (k *modelKey) refuse(c *store.Claim, reason auth.Reason) store.Verdict {
	v := store.Verdict{Reason: reason}
	if k.failures == 0 {
		k.parts = map[netip.Prefix]int{}
	}
	if counts(c, reason) && !c.DryRun {
		if v.Uncounted = k.busyBeside(c) && !k.addPart(c); !v.Uncounted {
			k.failures++
		}
	}
	v.Failures = k.failures
	return v
}

// busyBeside reports whether the key was accepted from another holder within ten minutes.
func (k *modelKey) busyBeside(c *store.Claim) bool {
	busy := false
	for from, at := range k.accepted {
		busy = busy || from != c.From && c.Now.Unix()/10-at.Unix()/10 <= 60
	}
	return busy
}

// addPart adds a failure to the part of the holder, and returns false if that is full.
func (k *modelKey) addPart(c *store.Claim) bool {
	part, known := k.parts[c.From]
	if part >= 25 || part >= max(c.LockAfter/2, 1) {
		return false
	}
	if known || len(k.parts) < 50 {
		k.parts[c.From]++
	}
	return true
}

func (k *modelKey) charge(c *store.Claim) store.Verdict {
	var v store.Verdict
	now := c.Now.UnixMicro()
	next := map[string]ratelimit.Level{}
	fits := map[string]bool{}
	for _, ch := range c.Charges {
		level, ok := ch.Decide(k.levels[ch.Bucket], now)
		next[ch.Bucket], fits[ch.Bucket] = level, ok
		if !ok {
			v.OverLimit = true
		}
	}
	for i, ch := range c.Charges {
		if !v.OverLimit && !c.BodyDropped {
			k.levels[ch.Bucket] = next[ch.Bucket]
		}
		v.States[i] = ch.State(k.levels[ch.Bucket], now, fits[ch.Bucket])
	}
	return v
}

// levels returns the states of a key's buckets at now.
func (m *model) levels(id string, charges []ratelimit.Charge, now time.Time) []ratelimit.State {
	var states []ratelimit.State
	for _, ch := range charges {
		states = append(states, ch.State(m.key(id).levels[ch.Bucket], now.UnixMicro(), true))
	}
	return states
}

// unsettled reports whether the nonce is at the end of its life. A backend that
// keeps whole seconds may still know it then.
func (m *model) unsettled(c *store.Claim) bool {
	end, known := m.key(c.KeyID).nonces[c.Nonce]
	return known && !c.Now.Before(end) && c.Now.Before(end.Add(2*time.Second))
}

// underFloor reports whether the request is stamped at or before the replay
// floor and its margin.
func (m *model) underFloor(c *store.Claim) bool {
	return !m.floor.IsZero() && !time.Unix(c.Timestamp, 0).After(m.floor.Add(c.ReplayFloorAhead))
}

// untilFloorPasses returns the time to the first whole second after the floor.
// It tries second by second.
func (m *model) untilFloorPasses(c *store.Claim) time.Duration {
	again := *c
	for again.Timestamp = c.Now.Unix() - 1; m.underFloor(&again); {
		again.Timestamp++
	}
	return max(time.Unix(again.Timestamp, 0).Sub(c.Now), time.Second)
}

// outside reports whether a request fails rule 7. Whole seconds are compared, the
// edge is inside, and the timestamp of a malformed header is 0.
func outside(now time.Time, timestamp int64, window time.Duration) bool {
	seconds := int64(window / time.Second)
	return timestamp == 0 || now.Unix() > timestamp+seconds || now.Unix() < timestamp-seconds
}

// lifetime returns max(window, ts + window + 1 s - now) + 10 s.
func lifetime(c *store.Claim) time.Duration {
	valid := time.Unix(c.Timestamp, 0).Add(c.Window + time.Second).Sub(c.Now)
	if valid < c.Window {
		valid = c.Window
	}
	return valid + 10*time.Second
}

// look returns the verdict of settle on a copy of the key.
func (m *model) look(c *store.Claim) store.Verdict {
	k := m.key(c.KeyID)
	copied := *k
	if k.record != nil {
		copied.record = k.record.Clone()
	}
	copied.nonces, copied.levels, copied.lastUsed = maps.Clone(k.nonces), maps.Clone(k.levels), maps.Clone(k.lastUsed)
	copied.accepted, copied.parts = maps.Clone(k.accepted), maps.Clone(k.parts)
	v := (&model{keys: map[string]*modelKey{c.KeyID: &copied}, floor: m.floor}).settle(c)
	return store.Verdict{Stale: v.Stale, Reason: v.Reason, RetryAfter: v.RetryAfter}
}
