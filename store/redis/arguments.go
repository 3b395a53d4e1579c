package redis

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// An argument of settle.lua is a local variable there. The order of the list
// is the order of ARGV.
type argument struct {
	name  string // of the variable
	as    string // the Lua expression that reads it; %s is the text
	value func(a *attempt) any
}

// An attempt is one call of settle.lua.
type attempt struct {
	*store.Claim
	seen       *view
	failed     auth.Rules
	lifeWindow time.Duration // that the nonce lives for; at least Window
	maxNonces  int
	look       bool // write nothing
}

// How Lua reads an argument.
const (
	asText   = "%s"
	asNumber = "tonumber(%s)"
	asFlag   = "%s == '1'"
)

// settleArguments are everything that settle.lua is told about a claim, but
// for its buckets, which follow.
var settleArguments = []argument{
	{"revision", asText, func(a *attempt) any { return a.Revision }},
	{"next_revision", asText, func(a *attempt) any { return a.NextRevision }},
	{"servers", asText, func(a *attempt) any { return a.seen.known }},
	{"floor", asNumber, func(a *attempt) any { return decimal(a.seen.floorOf(a.KeyID)) }},           // us
	{"ahead", asNumber, func(a *attempt) any { return decimal(a.ReplayFloorAhead.Microseconds()) }}, // us
	{"claim_now", asNumber, func(a *attempt) any { return decimal(a.Now.UnixMicro()) }},             // us
	{"timestamp", asNumber, func(a *attempt) any { return decimal(a.Timestamp) }},                   // s
	{"window", asNumber, func(a *attempt) any { return decimal(a.Window.Milliseconds()) }},
	{"life_window", asNumber, func(a *attempt) any { return decimal(a.lifeWindow.Milliseconds()) }},
	{"life", asNumber, (*attempt).life}, // ms
	{"digest", asText, func(a *attempt) any { return a.Nonce[:] }},
	{"failed", asNumber, func(a *attempt) any { return decimal(int64(a.failed)) }}, // a set of rules
	{"counts", asNumber, (*attempt).counts},                                        // a set of rules
	{"lock_after", asNumber, func(a *attempt) any { return decimal(int64(a.LockAfter)) }},
	{"lock_until", asText, (*attempt).lockUntil}, // us
	{"dry_run", asFlag, func(a *attempt) any { return bit(a.DryRun) }},
	{"limits_dry_run", asFlag, func(a *attempt) any { return bit(a.LimitsDryRun) }},
	{"version", asText, func(a *attempt) any { return decimal(int64(a.SecretVersion)) }},
	{"minute", asText, func(a *attempt) any { return decimal(a.Now.Unix() / 60) }},
	{"look", asFlag, func(a *attempt) any { return bit(a.look) }},
	{"body_dropped", asFlag, func(a *attempt) any { return bit(a.BodyDropped) }},
	{"max_nonces", asNumber, func(a *attempt) any { return decimal(int64(a.maxNonces)) }},
}

// settleRules are the rules that settle.lua decides or is told to have failed.
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
	b.WriteString("local BIT, REASON = {}, {} -- by rule\n")
	for _, rule := range settleRules {
		fmt.Fprintf(&b, "BIT[%[1]d], REASON[%[1]d] = %[2]d, '%[3]s'\n", bits.TrailingZeros16(uint16(rule)), rule, rule.First())
	}
	b.WriteString("local tag = ARGV[1]\n")
	for i, a := range settleArguments {
		fmt.Fprintf(&b, "local %s = "+a.as+"\n", a.name, fmt.Sprintf("ARGV[%d]", i+2))
	}
	fmt.Fprintf(&b, "local FIRST_CHARGE = %d\n", len(settleArguments)+2)
	return b.String()
}

func (a *attempt) args() []any {
	args := make([]any, 0, len(settleArguments)+5*len(a.Charges))
	for i := range settleArguments {
		args = append(args, settleArguments[i].value(a))
	}
	for i := range a.Charges {
		ch := &a.Charges[i]
		args = append(args, ch.Bucket, decimal(ch.Unit), decimal(ch.Drain), decimal(ch.Capacity), decimal(ch.Cost))
	}
	return args
}

// life is how long the nonce lives from now on, in milliseconds, rounded up.
func (a *attempt) life() any {
	life := auth.NonceLifetime(a.Now, a.Timestamp, a.lifeWindow)
	return decimal(int64((life + time.Millisecond - 1) / time.Millisecond))
}

// lockUntil is when a lock that this request causes ends, in microseconds; 0
// is never.
func (a *attempt) lockUntil() any {
	if a.LockDuration <= 0 {
		return "0"
	}
	return decimal(a.Now.Add(a.LockDuration).UnixMicro())
}

// counts is the set of the rules that count if they refuse the request.
func (a *attempt) counts() any {
	var set auth.Rules
	for _, rule := range settleRules {
		if !a.DryRun && auth.Counts(rule.First(), a.failed, a.LockCounts) {
			set |= rule
		}
	}
	return decimal(int64(set))
}

// settleScript has the names of its arguments from the list above.
var settleScript = newScript(serverLua + settlePrologue() + settleLua)
