package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/masters"
)

// A verdict is taken only if settle.lua can give it to this claim. What the gateway
// knows itself (the rules that have failed, the floor, the limits, its clock) is not
// left to a server: a reply that contradicts it is an error, and nothing of it is kept.

// The outcomes with which settle.lua has decided and written nothing.
const (
	outcomeServer = "server" // the server is not known
	// outcomeReplicas: it has replicas, and none has acknowledged anything for
	// longer than MaxLag.
	outcomeReplicas = "replicas"
	outcomeClock    = "clock" // its clock and the claim's differ too much
	outcomeOlder    = "older" // its content is older than this gateway has seen it
	outcomeStale    = "stale"
	outcomeFull     = "full"
	outcomeWindow   = "window" // the nonce must live for a wider window
)

// read reads the numbers of a reply, and notes the beat: the beat; the failure count;
// with a lock, whether this request wrote it; of a failure, whether it is Uncounted; under
// the replay floor, its end; and where buckets were decided on, the server's time and per
// bucket used, at and whether the request fits.
func (a *attempt) read(outcome string, n numbers) (v store.Verdict, err error) {
	switch outcome {
	case outcomeStale:
		return store.Verdict{Stale: n.end() == nil}, n.err
	case outcomeClock:
		return v, fmt.Errorf("%w: the clocks of redis and of this gateway are %d µs apart, at most %v are allowed", store.ErrUnavailable, n.signed(), masters.MaxSkew)
	case outcomeReplicas:
		return v, fmt.Errorf("%w: no replica has answered the master for %d s, at most %v are allowed", store.ErrUnavailable, n.next(), masters.MaxLag)
	case outcomeFull:
		return v, fmt.Errorf("%w: the key has %d", store.ErrFull, n.next())
	}
	reason, known := auth.ReasonNamed(outcome)
	if !known {
		return v, fmt.Errorf("%w: redis answered %q", store.ErrUnavailable, outcome)
	}
	last, problem := n.next(), ""
	v = store.Verdict{Reason: reason, Failures: int(n.next())}
	switch reason {
	case auth.Accepted, auth.RateLimited:
		problem = a.readLimits(&v, n.next(), &n)
	case auth.KeyLocked:
		v.Locked = n.next() == 1
		problem = a.checkLock(&v)
	case auth.ReplayFloor:
		end := n.next()
		v.RetryAfter = a.UntilAfter(time.UnixMicro(end))
		if a.failed != 0 || a.Timestamp > end/1e6 {
			problem = "another rule has failed, or the request is after the floor"
		}
	default:
		v.Uncounted = n.next() == 1
		counts := !a.DryRun && !a.look && auth.Counts(reason, a.failed, a.LockCounts)
		if reason != a.failed.First() && reason != (a.failed|auth.RuleNonce).First() || v.Uncounted && !counts {
			problem = "it is not the first rule that has failed, or does not count"
		}
	}
	if last < a.lastBeat {
		problem = "its content is older than it was"
	}
	if err := n.end(); err != nil {
		return store.Verdict{}, err
	}
	if problem != "" {
		return store.Verdict{}, fmt.Errorf("%w: redis answered %q to a request for which that cannot be: %s", store.ErrUnavailable, outcome, problem)
	}
	a.beat.Note(last, a.Now)
	return v, nil
}

// checkLock returns why the claim cannot have found the key locked so, or "".
func (a *attempt) checkLock(v *store.Verdict) string {
	switch writes := !a.DryRun && !a.look; {
	case v.Locked != writes:
		return "the lock is written unless in a dry run"
	case !v.Locked && v.Failures < a.LockAfter, v.Locked && v.Failures != 0:
		return "the failures do not fit"
	default:
		return ""
	}
}

// readLimits reads the buckets into the verdict, and returns why the claim cannot
// have come to them so, or "".
func (a *attempt) readLimits(v *store.Verdict, now int64, n *numbers) string {
	levels, fits := [ratelimit.MaxCharges]ratelimit.Level{}, [ratelimit.MaxCharges]bool{}
	for i := range a.Charges {
		levels[i] = ratelimit.Level{Used: n.next(), At: n.next(), Unit: a.Charges[i].Unit}
		fits[i] = n.next() == 1
		v.OverLimit = v.OverLimit || !fits[i]
	}
	limited := v.Reason == auth.RateLimited
	if problem := a.checkPassage(v, now); problem != "" {
		return problem
	}
	spent := !limited && (!v.OverLimit || a.look) // otherwise the level is that before the request
	for i := range a.Charges {
		ch, before := &a.Charges[i], levels[i].Used
		if spent {
			before -= ch.Cost
		}
		if before < 0 || before > ch.Capacity || fits[i] != (before+ch.Cost <= ch.Capacity) || levels[i].At < now {
			return fmt.Sprintf("the level of the bucket %s does not fit", ch.Bucket)
		}
		v.States[i] = ch.State(levels[i], now, fits[i])
	}
	return ""
}

// checkPassage returns why the claim cannot have passed all rules at a moment of the
// server's clock with this result for the limits, or "".
func (a *attempt) checkPassage(v *store.Verdict, now int64) string {
	off := time.Duration(now-a.Now.UnixMicro()) * time.Microsecond
	floor := a.seen.FloorOf(a.KeyID)
	switch {
	case a.failed != 0:
		return "a rule has failed"
	case floor > 0 && a.Timestamp*1e6 <= floor+a.ReplayFloorAhead.Microseconds():
		return "it is stamped before the replay floor"
	case off.Abs() > masters.MaxSkew:
		return "the clock of redis is too far off"
	case (v.Reason == auth.RateLimited) != (v.OverLimit && !a.LimitsDryRun || a.BodyDropped):
		return "the limits do not fit"
	case v.Reason == auth.Accepted && !a.look && !a.DryRun && v.Failures != 0:
		return "the failures are not cleared"
	default:
		return ""
	}
}

// maxNumber bounds the numbers of the scripts: a double has all whole numbers below.
const maxNumber = 1 << 53

// numbers reads the whole numbers of a reply, from 0 to maxNumber.
type numbers struct {
	rest []any
	err  error
}

// parseNumbers returns the first whole numbers of a text, at most most, which are
// separated by spaces.
func parseNumbers(text string, most int) (n numbers) {
	words := strings.SplitN(text, " ", most+1)
	for _, word := range words[:min(most, len(words))] {
		i, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return numbers{err: fmt.Errorf("%w: a reply of redis holds %q instead of a number", store.ErrUnavailable, word)}
		}
		n.rest = append(n.rest, i)
	}
	return n
}

func (n *numbers) next() int64 {
	i := n.signed()
	if (i < 0 || i >= maxNumber) && n.err == nil {
		n.err = fmt.Errorf("%w: a reply of redis holds the number %d", store.ErrUnavailable, i)
	}
	return i
}

// signed reads a number that may be negative or larger.
func (n *numbers) signed() int64 {
	if len(n.rest) > 0 {
		if i, ok := n.rest[0].(int64); ok {
			n.rest = n.rest[1:]
			return i
		}
	}
	if n.err == nil {
		n.err = fmt.Errorf("%w: a reply of redis lacks a number before %v", store.ErrUnavailable, n.rest)
	}
	return 0
}

// end returns the error of the numbers, also if more follows them.
func (n *numbers) end() error {
	if n.err == nil && len(n.rest) > 0 {
		n.err = fmt.Errorf("%w: a reply of redis has %d values too many", store.ErrUnavailable, len(n.rest))
	}
	return n.err
}
