package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

const (
	spanMillis = 128_000 // of one nonce hash, as in settle.lua
	maxSkew    = 5 * time.Second
	// MaxWindow is the longest Claim.Window: settle.lua looks for nonces as
	// far ahead as such a window lets them live.
	MaxWindow = time.Hour
)

// Settle runs settle.lua on the master of the key's slot. It has a deadline of
// its own and goes on when the client is gone. A server that is not known yet
// is looked at first, and what may have been lost raises the replay floor.
func (s *Store) Settle(ctx context.Context, c *store.Claim) (store.Verdict, error) {
	if c.Window > MaxWindow {
		return store.Verdict{}, fmt.Errorf("%w: the window is %v, at most %v are supported on redis", store.ErrUnavailable, c.Window, MaxWindow)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.SettleTimeout)
	defer cancel()
	for {
		seen := s.view.Load()
		if seen.unfit {
			return store.Verdict{}, seen.problem
		}
		reply, err := s.run(ctx, "settling", call{script: settleScript, keys: s.settleKeys(c), args: s.settleArgs(c, seen)})
		if err != nil {
			return store.Verdict{}, err
		}
		outcome, err := text(reply, 0)
		if err != nil {
			return store.Verdict{}, err
		}
		numbers, err := text(reply, 1)
		if err != nil {
			return store.Verdict{}, err
		}
		switch outcome {
		case "server": // nothing was written
			if err := s.lookAgain(ctx, seen); err != nil {
				return store.Verdict{}, err
			}
			if s.view.Load() == seen {
				return store.Verdict{}, fmt.Errorf("%w: the server %s is none of the masters", store.ErrUnavailable, numbers)
			}
		case "clock":
			return store.Verdict{}, fmt.Errorf("%w: the clocks of redis and of this gateway are %s µs apart, at most %v are allowed", store.ErrUnavailable, numbers, maxSkew)
		case "full":
			return store.Verdict{}, fmt.Errorf("%w: %w: the key has %s", store.ErrUnavailable, store.ErrFull, numbers)
		default:
			return s.verdict(c, outcome, numbers)
		}
	}
}

// settleKeys names the keys of the claim. A cluster is told of the nonces too,
// so that a slot in the middle of its move turns the whole call away.
func (s *Store) settleKeys(c *store.Claim) []string {
	if s.cluster == nil {
		return []string{s.names.record(c.KeyID), s.names.buckets(c.KeyID)}
	}
	first := c.Now.Add(-maxSkew).UnixMilli() / spanMillis
	last := c.Now.Add(maxSkew+2*c.Window+11*time.Second).UnixMilli() / spanMillis
	keys := make([]string, 0, 3+last-first)
	keys = append(keys, s.names.record(c.KeyID), s.names.buckets(c.KeyID))
	for span := first; span <= last; span++ {
		keys = append(keys, s.names.nonces(c.KeyID, span))
	}
	return keys
}

func (s *Store) settleArgs(c *store.Claim, seen *view) []any {
	failed := c.Failed
	if late(c) {
		failed |= auth.RuleTimestamp
	}
	life := auth.NonceLifetime(c.Now, c.Timestamp, c.Window)
	lockUntil := int64(0)
	if c.LockDuration > 0 {
		lockUntil = c.Now.Add(c.LockDuration).UnixMicro()
	}
	args := make([]any, 0, 19+5*len(c.Charges))
	args = append(args, c.Revision, c.NextRevision,
		seen.known, decimal(seen.floor), decimal(c.ReplayFloorAhead.Microseconds()),
		decimal(c.Now.UnixMicro()), bit(s.opt.claimClock),
		decimal(c.Timestamp), decimal(int64((life+time.Millisecond-1)/time.Millisecond)), c.Nonce[:],
		letters(failed), countLetters(c, failed),
		decimal(int64(c.LockAfter)), decimal(lockUntil),
		bit(c.DryRun), bit(c.LimitsDryRun),
		decimal(int64(c.SecretVersion)), decimal(c.Now.Unix()/60), decimal(int64(s.opt.MaxNoncesPerKey)))
	for i := range c.Charges {
		ch := &c.Charges[i]
		args = append(args, ch.Bucket, decimal(ch.Unit), decimal(ch.Drain), decimal(ch.Capacity), decimal(ch.Cost))
	}
	return args
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// late is rule 7 for the clock reading in the claim.
func late(c *store.Claim) bool {
	return c.Timestamp == 0 || !auth.InWindow(c.Now, c.Timestamp, c.Window)
}

// The rules that settle.lua knows, by letter.
var ruleLetters = []struct {
	rule   auth.Rules
	reason auth.Reason
	letter string
}{
	{auth.RuleIP, auth.IPNotAllowed, "i"},
	{auth.RuleTimestamp, auth.TimestampOutOfWindow, "t"},
	{auth.RuleNonce, auth.ReplayedNonce, "n"},
	{auth.RuleBodyHash, auth.BodyHashMismatch, "h"},
	{auth.RuleSignature, auth.SignatureMismatch, "s"},
	{auth.RuleScope, auth.ScopeMissing, "c"},
}

// letters names the rules of the set.
func letters(rules auth.Rules) string {
	var s string
	for _, l := range ruleLetters {
		if rules.Has(l.rule) {
			s += l.letter
		}
	}
	return s
}

// countLetters names the rules that count if the request is refused by them.
func countLetters(c *store.Claim, failed auth.Rules) string {
	if c.DryRun {
		return ""
	}
	var s string
	for _, l := range ruleLetters {
		if auth.Counts(l.reason, failed, c.LockCounts) {
			s += l.letter
		}
	}
	return s
}

var outcomes = map[string]auth.Reason{
	"ok": auth.Accepted, "limit": auth.RateLimited, "locked": auth.KeyLocked, "locks": auth.KeyLocked,
	"ip": auth.IPNotAllowed, "time": auth.TimestampOutOfWindow, "nonce": auth.ReplayedNonce,
	"hash": auth.BodyHashMismatch, "signature": auth.SignatureMismatch, "scope": auth.ScopeMissing,
	"floor": auth.ReplayFloor,
}

// verdict reads the numbers of a reply: the failure count and, where buckets
// were decided on, the server's time and per bucket used, at and whether the
// request fits.
func (s *Store) verdict(c *store.Claim, outcome, numbers string) (store.Verdict, error) {
	if outcome == "stale" {
		return store.Verdict{Stale: true}, nil
	}
	reason, known := outcomes[outcome]
	if !known {
		return store.Verdict{}, fmt.Errorf("%w: redis answered %q", store.ErrUnavailable, outcome)
	}
	n := fields{rest: numbers}
	v := store.Verdict{Reason: reason, Failures: int(n.next()), Locked: outcome == "locks"}
	if reason == auth.ReplayFloor {
		v.RetryAfter = c.UntilAfter(time.UnixMicro(n.next()))
	}
	if reason != auth.Accepted && reason != auth.RateLimited {
		return v, n.err
	}
	now := n.next()
	for i := range c.Charges {
		ch := &c.Charges[i]
		level := ratelimit.Level{Used: n.next(), At: n.next(), Unit: ch.Unit}
		fits := n.next() == 1
		v.States[i] = ch.State(level, now, fits)
		v.OverLimit = v.OverLimit || !fits
	}
	if n.err != nil {
		return store.Verdict{}, n.err
	}
	if reason == auth.Accepted {
		s.accepted(now)
	}
	return v, nil
}

// accepted notes the server's time of an acceptance.
func (s *Store) accepted(now int64) {
	for {
		last := s.lastAccept.Load()
		if now <= last || s.lastAccept.CompareAndSwap(last, now) {
			return
		}
	}
}

// fields reads whole numbers separated by spaces.
type fields struct {
	rest string
	err  error
}

func (f *fields) next() int64 {
	word, rest, _ := strings.Cut(f.rest, " ")
	f.rest = rest
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("%w: a reply of redis holds %q instead of a number", store.ErrUnavailable, word)
	}
	return n
}
