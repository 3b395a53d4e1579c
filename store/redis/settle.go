package redis

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/masters"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

const (
	spanMillis = 128_000 // of one nonce hash
	// MaxWindow is the longest Claim.Window: settle.lua searches nonces as far
	// ahead as they can live with this window.
	MaxWindow = time.Hour
	// longestLife of a nonce, that of a request stamped a whole window ahead.
	longestLife = 2*MaxWindow + 11*time.Second
	// spanReach is the number of spans after the current one in which a nonce can
	// still live.
	spanReach = int64(longestLife/time.Millisecond)/spanMillis + 2
)

// beatEvery is how far the beat may be behind an accepted request. A copy of the content
// that is older than that is noticed.
// To write it with every request costs 5 % of Redis.
const beatEvery = 500 * time.Microsecond

// windowLinger is how long a wider window counts as in use after the last request
// that was accepted with it.
const windowLinger = 10 * time.Minute

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
	a.failed, a.maxNonces, a.beat = c.Failed&^auth.RuleNonce, s.opt.MaxNoncesPerKey, s.servers.BeatOf(c.KeyID)
	if c.Late() {
		a.failed |= auth.RuleTimestamp
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.SettleTimeout)
	defer cancel()
	for {
		seen := s.view()
		if err := seen.Forbids(); err != nil {
			return store.Verdict{}, err
		}
		window := s.windows.atLeast(c)
		a.seen, a.lifeWindow, a.lastBeat = seen, window, a.beat.Seen()
		outcome, reply, err := s.attempt(ctx, a)
		switch {
		case err != nil:
			return store.Verdict{}, err
		case outcome == outcomeServer:
			if err := s.servers.CheckAgain(ctx, seen); err != nil {
				return store.Verdict{}, err
			}
			if s.view() == seen {
				return store.Verdict{}, fmt.Errorf("%w: the server %v is none of the masters", store.ErrUnavailable, reply.rest)
			}
		case outcome == outcomeOlder:
			if err := s.servers.RaiseOlder(ctx, a.beat, seen.FloorOf(c.KeyID)); err != nil {
				return store.Verdict{}, err
			}
		case outcome == outcomeWindow:
			if err := s.windows.learn(c, window, reply); err != nil {
				return store.Verdict{}, err
			}
		default:
			return a.read(outcome, reply)
		}
	}
}

// attempt runs settle.lua once and returns its reply.
func (s *Store) attempt(ctx context.Context, a attempt) (outcome string, n numbers, err error) {
	reply, err := s.client.Run(ctx, "settling", rpc.Call{Script: s.settling, Keys: s.settleKeys(&a), Args: a.args()})
	if err != nil {
		return "", n, err
	}
	if outcome, err = rpc.Text(reply, 0); err != nil {
		return "", n, err
	}
	return outcome, numbers{rest: reply[1:]}, nil
}

// settleKeys returns the Redis keys of the claim. It includes those of the nonces,
// so that a cluster refuses the whole call while it moves the slot.
func (s *Store) settleKeys(a *attempt) []string {
	if s.client.Cluster == nil {
		return []string{s.names.record(a.KeyID), s.names.buckets(a.KeyID), a.beat.Key}
	}
	first := a.Now.Add(-masters.MaxSkew).UnixMilli() / spanMillis
	last := a.Now.Add(masters.MaxSkew+2*a.lifeWindow+11*time.Second).UnixMilli() / spanMillis
	keys := make([]string, 0, 4+last-first)
	keys = append(keys, s.names.record(a.KeyID), s.names.buckets(a.KeyID), a.beat.Key)
	for span := first; span <= last; span++ {
		keys = append(keys, s.names.nonces(a.KeyID, span))
	}
	return keys
}

// An attempt is one call of settle.lua.
type attempt struct {
	*store.Claim
	seen       *masters.View
	failed     auth.Rules
	lifeWindow time.Duration // that the nonce lives for; at least Window
	maxNonces  int
	beat       *masters.Beat
	lastBeat   int64 // that this gateway has seen
	look       bool  // write nothing
}

// The arguments of settle.lua are local variables there. Texts have an element
// of ARGV each. All numbers are packed into one, as doubles: Redis takes longer
// to read and convert a list of them than to run most commands. Every number is
// below 2^53, so that none is rounded.
var (
	settleTexts = []argument[any]{
		{"revision", func(a *attempt) any { return a.Revision }},
		{"next_revision", func(a *attempt) any { return a.NextRevision }},
		{"servers", func(a *attempt) any { return a.seen.Known }},
		{"digest", func(a *attempt) any { return a.Nonce[:] }},
		{"version", func(a *attempt) any { return a.SecretVersion }},
		{"minute", func(a *attempt) any { return a.Now.Unix() / 60 }},
		{"from", func(a *attempt) any { return fmt.Sprintf("%016x:%d", a.Origin(), a.Tick()) }},
		{"windows", func(a *attempt) any {
			return fmt.Sprintf("%d %d 0 0", a.Window.Milliseconds(), a.Now.Truncate(time.Minute).UnixMilli())
		}}, // what the record says of them, mostly
	}
	settleNumbers = []argument[int64]{
		{"floor", func(a *attempt) int64 { return a.seen.FloorOf(a.KeyID) }},           // us
		{"seen", func(a *attempt) int64 { return a.lastBeat }},                         // us
		{"ahead", func(a *attempt) int64 { return a.ReplayFloorAhead.Microseconds() }}, // us
		{"claim_now", func(a *attempt) int64 { return a.Now.UnixMicro() }},             // us
		{"timestamp", func(a *attempt) int64 { return a.Timestamp }},                   // s
		{"window", func(a *attempt) int64 { return a.Window.Milliseconds() }},
		{"life_window", func(a *attempt) int64 { return a.lifeWindow.Milliseconds() }},
		{"life", (*attempt).life},                                     // ms
		{"failed", func(a *attempt) int64 { return int64(a.failed) }}, // a set of rules
		{"counts", (*attempt).counts},                                 // a set of rules
		{"lock_after", func(a *attempt) int64 { return int64(a.LockAfter) }},
		{"lock_until", func(a *attempt) int64 { return micros(a.LockEnd()) }}, // us; 0: never
		{"max_nonces", func(a *attempt) int64 { return int64(a.maxNonces) }},
	}
	settleFlags = []argument[bool]{ // bits of the last packed number
		{"dry_run", func(a *attempt) bool { return a.DryRun }},
		{"limits_dry_run", func(a *attempt) bool { return a.LimitsDryRun }},
		{"look", func(a *attempt) bool { return a.look }},
		{"body_dropped", func(a *attempt) bool { return a.BodyDropped }},
	}
)

type argument[T any] struct {
	name  string // of the variable
	value func(a *attempt) T
}

// settleRules are the rules that settle.lua decides or gets as failed.
var settleRules = []auth.Rules{
	auth.RuleIP, auth.RuleTimestamp, auth.RuleNonce, auth.RuleBodyHash, auth.RuleSignature, auth.RuleScope,
}

// settlePrologue is the part of settle.lua that names its constants and
// arguments.
func settlePrologue() string {
	var b strings.Builder
	fmt.Fprintf(&b, "local SPAN, REACH, SKEW, LAG = %d, %d, %d, %d -- ms, spans, us, s\n", spanMillis, spanReach, masters.MaxSkew.Microseconds(), int(masters.MaxLag.Seconds()))
	fmt.Fprintf(&b, "local BEAT = %d -- us\n", beatEvery.Microseconds())
	fmt.Fprintf(&b, "local LINGER, LONGEST = %d, %d -- ms\n", windowLinger.Milliseconds(), MaxWindow.Milliseconds())
	fmt.Fprintf(&b, "local ACCEPTED, LIMITED, LOCKED, REPLAY_FLOOR = '%s', '%s', '%s', '%s'\n", auth.Accepted, auth.RateLimited, auth.KeyLocked, auth.ReplayFloor)
	fmt.Fprintf(&b, "local NONCE_RULE = %d\n", auth.RuleNonce)
	fmt.Fprintf(&b, "local BUSY, SHARE, MAX_PARTS = %d, %d, %d -- ticks, failures\n", store.BusyTicks, auth.LockShare(math.MaxInt), store.MaxParts)
	b.WriteString("local REASONS = '")
	for _, rule := range settleRules {
		fmt.Fprintf(&b, " %d=%s", rule, rule.First())
	}
	b.WriteString("'\n")
	b.WriteString("local tag = ARGV[1]\n")
	names := make([]string, len(settleNumbers))
	for i, a := range settleNumbers {
		names[i] = a.name
	}
	fmt.Fprintf(&b, "local %s, flags = struct.unpack('<%s', ARGV[2])\n", strings.Join(names, ", "), strings.Repeat("d", len(names)+1))
	for i, a := range settleFlags {
		fmt.Fprintf(&b, "local %s = flags %% %d >= %d\n", a.name, 2<<i, 1<<i)
	}
	for i, a := range settleTexts {
		fmt.Fprintf(&b, "local %s = ARGV[%d]\n", a.name, i+3)
	}
	fmt.Fprintf(&b, "local FIRST_CHARGE = %d\n", len(settleTexts)+3)
	return b.String()
}

func (a *attempt) args() []any {
	packed := make([]byte, 0, 8*(len(settleNumbers)+1))
	for i := range settleNumbers {
		packed = appendDoubles(packed, settleNumbers[i].value(a))
	}
	var flags int64
	for i := range settleFlags {
		if settleFlags[i].value(a) {
			flags |= 1 << i
		}
	}
	args := make([]any, 0, 1+len(settleTexts)+2*len(a.Charges))
	args = append(args, appendDoubles(packed, flags))
	for i := range settleTexts {
		args = append(args, settleTexts[i].value(a))
	}
	for i := range a.Charges {
		ch := &a.Charges[i]
		args = append(args, "b:"+ch.Bucket, appendDoubles(make([]byte, 0, 4*8), ch.Unit, ch.Drain, ch.Capacity, ch.Cost))
	}
	return args
}

func appendDoubles(b []byte, all ...int64) []byte {
	for _, n := range all {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

// life is how long the nonce lives from now on, in milliseconds, rounded up.
func (a *attempt) life() int64 {
	life := auth.NonceLifetime(a.Now, a.Timestamp, a.lifeWindow)
	return int64((life + time.Millisecond - 1) / time.Millisecond)
}

// counts is the set of the rules that count if they refuse the request.
func (a *attempt) counts() int64 {
	var set auth.Rules
	for _, rule := range settleRules {
		if !a.DryRun && auth.Counts(rule.First(), a.failed, a.LockCounts) {
			set |= rule
		}
	}
	return int64(set)
}

var (
	//go:embed settle.lua
	settleLua string
	//go:embed levels.lua
	levelsLua string

	// settleScript has the names of its arguments from the list above.
	settleScript = masters.NewScript(settlePrologue() + settleLua)
	levelsScript = masters.NewScript(levelsLua)
)

// Gateways with different windows may share a key: while a new window is rolled
// out from node to node, or by mistake. A nonce must outlive the widest window in
// which its request could arrive again. So settle.lua notes at each key the widest
// window in use. If the nonce of a claim would live for less, the script answers
// with that window, and the claim is tried again. Nonces that were recorded before
// the window became wider may have expired already. So requests older than the
// narrower window are refused.

// windows is the widest window of other gateways, as settle.lua has reported it.
type windows struct{ wider atomic.Pointer[widerWindow] }

type widerWindow struct {
	window time.Duration
	until  time.Time // after this the gateway's own window is tried again
}

// atLeast returns the window that the nonce of the claim must live for.
func (w *windows) atLeast(c *store.Claim) time.Duration {
	if other := w.wider.Load(); other != nil && other.window > c.Window && c.Now.Before(other.until) {
		return other.window
	}
	return c.Window
}

// learn takes over the window that settle.lua answered with, in milliseconds.
// It must be wider than the one tried.
func (w *windows) learn(c *store.Claim, tried time.Duration, n numbers) error {
	window := time.Duration(n.next()) * time.Millisecond
	if n.err != nil {
		return n.err
	}
	if window <= tried || window > MaxWindow {
		return fmt.Errorf("%w: redis asks for a window of %v beside one of %v", store.ErrUnavailable, window, tried)
	}
	if w.atLeast(c) < window { // else another key has asked for more meanwhile
		w.wider.Store(&widerWindow{window: window, until: c.Now.Add(windowLinger)})
	}
	return nil
}

// Levels reads the buckets on the master of the key's slot. The moment is the
// server's, as that of Settle is.
func (s *Store) Levels(ctx context.Context, keyID string, charges []ratelimit.Charge, now time.Time) ([]ratelimit.State, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.SettleTimeout)
	defer cancel()
	args := make([]any, 0, 1+len(charges))
	args = append(args, now.UnixMicro())
	for i := range charges {
		args = append(args, charges[i].Bucket)
	}
	reply, err := s.client.Run(ctx, "reading limits", rpc.Call{Script: s.levels, Keys: []string{s.names.buckets(keyID)}, Args: args})
	if err != nil {
		return nil, err
	}
	text, err := rpc.Text(reply, 0)
	if err != nil {
		return nil, err
	}
	n := parseNumbers(text, 1+3*len(charges))
	moment := n.next()
	states := make([]ratelimit.State, len(charges))
	for i := range charges {
		charges[i].Describe(&states[i], ratelimit.Level{Used: n.next(), At: n.next(), Unit: n.next()}, moment, true)
	}
	return states, n.err
}
