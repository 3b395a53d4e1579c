package redis

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// An attempt is one call of settle.lua.
type attempt struct {
	*store.Claim
	seen       *view
	failed     auth.Rules
	lifeWindow time.Duration // that the nonce lives for; at least Window
	maxNonces  int
	look       bool // write nothing
}

// The arguments of settle.lua are local variables there. Texts have an element
// of ARGV each. All numbers are packed into one, as doubles: Redis takes longer
// to read and convert a list of them than to run most commands. Every number is
// below 2^53, so that none is rounded.
var (
	settleTexts = []textArgument{
		{"revision", func(a *attempt) any { return a.Revision }},
		{"next_revision", func(a *attempt) any { return a.NextRevision }},
		{"servers", func(a *attempt) any { return a.seen.known }},
		{"digest", func(a *attempt) any { return a.Nonce[:] }},
		{"version", func(a *attempt) any { return decimal(int64(a.SecretVersion)) }},
		{"minute", func(a *attempt) any { return decimal(a.Now.Unix() / 60) }},
	}
	settleNumbers = []numberArgument{
		{"floor", func(a *attempt) int64 { return a.seen.floorOf(a.KeyID) }},           // us
		{"ahead", func(a *attempt) int64 { return a.ReplayFloorAhead.Microseconds() }}, // us
		{"claim_now", func(a *attempt) int64 { return a.Now.UnixMicro() }},             // us
		{"timestamp", func(a *attempt) int64 { return a.Timestamp }},                   // s
		{"window", func(a *attempt) int64 { return a.Window.Milliseconds() }},
		{"life_window", func(a *attempt) int64 { return a.lifeWindow.Milliseconds() }},
		{"life", (*attempt).life},                                     // ms
		{"failed", func(a *attempt) int64 { return int64(a.failed) }}, // a set of rules
		{"counts", (*attempt).counts},                                 // a set of rules
		{"lock_after", func(a *attempt) int64 { return int64(a.LockAfter) }},
		{"lock_until", (*attempt).lockUntil}, // us
		{"max_nonces", func(a *attempt) int64 { return int64(a.maxNonces) }},
	}
	settleFlags = []flagArgument{
		{"dry_run", func(a *attempt) bool { return a.DryRun }},
		{"limits_dry_run", func(a *attempt) bool { return a.LimitsDryRun }},
		{"look", func(a *attempt) bool { return a.look }},
		{"body_dropped", func(a *attempt) bool { return a.BodyDropped }},
	}
)

type (
	textArgument struct {
		name  string // of the variable
		value func(a *attempt) any
	}
	numberArgument struct {
		name  string
		value func(a *attempt) int64
	}
	// A flagArgument is a bit of the last packed number.
	flagArgument struct {
		name  string
		value func(a *attempt) bool
	}
)

// settleRules are the rules that settle.lua decides or gets as failed.
var settleRules = []auth.Rules{
	auth.RuleIP, auth.RuleTimestamp, auth.RuleNonce, auth.RuleBodyHash, auth.RuleSignature, auth.RuleScope,
}

// settlePrologue is the part of settle.lua that names its constants and
// arguments.
func settlePrologue() string {
	var b strings.Builder
	fmt.Fprintf(&b, "local SPAN, REACH, SKEW, LAG = %d, %d, %d, %d -- ms, spans, us, s\n", spanMillis, spanReach, maxSkew.Microseconds(), int(maxLag.Seconds()))
	fmt.Fprintf(&b, "local LINGER, LONGEST = %d, %d -- ms\n", windowLinger.Milliseconds(), MaxWindow.Milliseconds())
	fmt.Fprintf(&b, "local ACCEPTED, LIMITED, LOCKED, REPLAY_FLOOR = '%s', '%s', '%s', '%s'\n", auth.Accepted, auth.RateLimited, auth.KeyLocked, auth.ReplayFloor)
	fmt.Fprintf(&b, "local NONCE_RULE = %d\n", auth.RuleNonce)
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
		packed = appendDouble(packed, settleNumbers[i].value(a))
	}
	var flags int64
	for i := range settleFlags {
		if settleFlags[i].value(a) {
			flags |= 1 << i
		}
	}
	args := make([]any, 0, 1+len(settleTexts)+2*len(a.Charges))
	args = append(args, appendDouble(packed, flags))
	for i := range settleTexts {
		args = append(args, settleTexts[i].value(a))
	}
	for i := range a.Charges {
		ch := &a.Charges[i]
		args = append(args, "b:"+ch.Bucket, packDoubles(ch.Unit, ch.Drain, ch.Capacity, ch.Cost))
	}
	return args
}

func packDoubles(all ...int64) []byte {
	packed := make([]byte, 0, 8*len(all))
	for _, n := range all {
		packed = appendDouble(packed, n)
	}
	return packed
}

func appendDouble(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

// life is how long the nonce lives from now on, in milliseconds, rounded up.
func (a *attempt) life() int64 {
	life := auth.NonceLifetime(a.Now, a.Timestamp, a.lifeWindow)
	return int64((life + time.Millisecond - 1) / time.Millisecond)
}

// lockUntil is when a lock that this request causes ends, in microseconds; 0
// is never.
func (a *attempt) lockUntil() int64 {
	if a.LockDuration <= 0 {
		return 0
	}
	return a.Now.Add(a.LockDuration).UnixMicro()
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

// settleScript has the names of its arguments from the list above.
var settleScript = newScript(serverLua + settlePrologue() + settleLua)
