package auth

import "math/bits"

// Rules is a set of verification rules; bit n stands for rule n of the
// published interface, Authentication, Verification rules.
type Rules uint16

// The verification rules that can fail. Rule 11 is how rules 9 and 10 compare.
const (
	RuleHeaders   Rules = 1 << 1  // all five headers are present
	RuleKnown     Rules = 1 << 2  // the key is known
	RuleEnabled   Rules = 1 << 3  // the key is neither disabled nor locked
	RuleExpiry    Rules = 1 << 4  // the key has not expired
	RuleLock      Rules = 1 << 5  // fewer consecutive failures than the threshold
	RuleIP        Rules = 1 << 6  // the client address is on the whitelist
	RuleTimestamp Rules = 1 << 7  // X-Timestamp is inside the window
	RuleNonce     Rules = 1 << 8  // the nonce is new
	RuleBodyHash  Rules = 1 << 9  // X-Body-Hash is the hash of the body
	RuleSignature Rules = 1 << 10 // X-Signature is right
	RuleScope     Rules = 1 << 12 // the key holds the operation's scope
)

var ruleReasons = [16]Reason{
	1: MissingHeaders, 2: UnknownKey, 3: KeyDisabled, 4: KeyExpired, 5: KeyLocked, 6: IPNotAllowed,
	7: TimestampOutOfWindow, 8: ReplayedNonce, 9: BodyHashMismatch, 10: SignatureMismatch, 12: ScopeMissing,
}

// Has reports whether any of the given rules is in the set.
func (r Rules) Has(any Rules) bool { return r&any != 0 }

// First returns the reason of the first rule of the set in the published
// order, or [Accepted] when the set is empty.
func (r Rules) First() Reason {
	if r == 0 {
		return Accepted
	}
	return ruleReasons[bits.TrailingZeros16(uint16(r))&15]
}

// Counts reports whether a request that is refused for the reason counts
// towards the lock. Failed holds the rules that the request is known to fail;
// extra is the set named by lock_counts (rules 6, 7 and 8).
//
// A refusal counts when the sender may not have the secret: rules 9 and 10, and
// rules 7 and 8 where the signature is wrong too. A correctly signed request
// that is late or repeated does not count, because its sender has the secret. A
// request from outside the whitelist does not count, because then a stranger
// could lock the key.
func Counts(reason Reason, failed, extra Rules) bool {
	switch reason {
	case BodyHashMismatch, SignatureMismatch:
		return true
	case TimestampOutOfWindow:
		return failed.Has(RuleSignature) || extra.Has(RuleTimestamp)
	case ReplayedNonce:
		return failed.Has(RuleSignature) || extra.Has(RuleNonce)
	case IPNotAllowed:
		return extra.Has(RuleIP)
	default:
		return false
	}
}
