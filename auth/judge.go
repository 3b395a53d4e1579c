// Package auth judges requests: [Judge] checks a request against its key by the
// verification rules of the published interface that need no shared state.
//
// A judgement depends on the request, the key and the time alone. The lock, the
// nonces and the rate limits need shared state. A store decides them; see
// package store.
//
// A server calls, in this order, [CheckMethod] and [ParseTarget] for the
// request line, [Table.Match] for the operation, [ParseCredentials] for the
// five headers and [Judge] for the verification rules.
//
// The package does no I/O, reads no clock and makes no random numbers, so
// every decision can be tested by its inputs alone. Package sign signs
// requests.
//
// The files, by the questions that they answer:
//
//   - target: is a target malformed or ambiguous, and which does the issuer get?
//   - operation: which operation is it?
//   - headers: which forms of the headers are valid, what is inside the window,
//     how long is a nonce remembered?
//   - canonical: what is the string to sign, is a signature correct?
//   - judge: which rules does a request fail, which of them comes first, and which
//     counts towards the lock?
//   - refusal: what are reason, status, code and text of a refusal?
//   - key: what may a key do, and from where?
//
// Begin with [Judge]; package gate calls it.
package auth

import (
	"math/bits"
	"net/netip"
	"sync"
	"time"
)

// A Request holds what [Judge] needs to know of a request.
type Request struct {
	Method      string
	Target      string // the request target as it came over the wire
	Credentials Credentials
	// Client is the address of the client, as the server knows it. The zero
	// address is on no whitelist.
	Client netip.Addr
	Scope  string // the scope that the operation needs
}

// A Judgement is the result of [Judge]. It needs neither shared state nor the
// body of the request.
type Judgement struct {
	// Failed holds the rules that the request fails, of rules 2, 3, 4, 6, 7,
	// 10 and 12.
	Failed Rules
	// SecretVersion is the version of the secret that verified the signature; 0
	// when none did.
	SecretVersion int
	// Retired is the secret of the key that verifies the signature but has
	// ended. It is nil when a live secret verifies it, or none does. A request
	// signed with it fails rule 10.
	Retired *Secret
}

// Judge checks rules 2, 3, 4, 6, 7, 10 and 12 and returns all that fail, not
// only the first. The key is nil when X-API-Key names no key. Then Failed is
// rule 2 alone, after as many HMACs as for a wrong signature. The window is that
// of rule 7. Judge does no I/O and does not allocate.
//
// Rule 10 covers the X-Body-Hash header and not the body, so it is decided
// before the body is read. All secrets of the key are tried, even after one has
// verified the signature.
func Judge(r *Request, key *Key, window time.Duration, now time.Time) Judgement {
	var j Judgement
	if key == nil {
		j.verifySignature(r, noKey, now)
		return Judgement{Failed: RuleKnown}
	}
	if key.Disabled || key.Lock.Holds(now) {
		j.Failed |= RuleEnabled
	}
	if !key.ExpiresAt.IsZero() && !now.Before(key.ExpiresAt) {
		j.Failed |= RuleExpiry
	}
	if !allowsClient(key.AllowedIPs, r.Client) {
		j.Failed |= RuleIP
	}
	if !InWindow(now, r.Credentials.Unix, window) || !key.StampedAfter.IsZero() && r.Credentials.Unix <= key.StampedAfter.Unix() {
		j.Failed |= RuleTimestamp
	}
	j.verifySignature(r, key, now)
	if !key.Scopes.Has(r.Scope) {
		j.Failed |= RuleScope
	}
	return j
}

// unprovenWork is the number of HMACs for a request that no live secret of its
// key has signed, however many secrets the key has. A key has at most two live
// secrets and two retired ones. Only a caller that signs with a live secret may
// measure how many there are.
const unprovenWork = 4

// standIn is tried in place of secrets that a key does not have. It never
// accepts a request.
var standIn = NewSecret(0, "in place of a missing secret", time.Time{})

// noKey is the key of a request whose X-API-Key names no key.
var noKey = &Key{}

// verifySignature tries all secrets of the key. It sets SecretVersion to the
// newest live secret that verifies the signature. If none does, it sets Retired
// to one that has ended and verifies it.
func (j *Judgement) verifySignature(r *Request, key *Key, now time.Time) {
	buf := signBuffers.Get().(*[]byte)
	c := &r.Credentials
	*buf = AppendStringToSign((*buf)[:0], r.Method, r.Target, c.Timestamp, c.Nonce, c.BodyHash)
	var ended *Secret
	for _, s := range key.Secrets {
		switch fits := s.Verify(*buf, c.Signature); {
		case fits && !s.Live(now):
			ended = s
		case fits && j.SecretVersion == 0:
			j.SecretVersion = s.Version()
		}
	}
	if j.SecretVersion == 0 {
		j.Failed |= RuleSignature
		for _, s := range key.Retired {
			if s.Verify(*buf, c.Signature) {
				ended = s
			}
		}
		j.Retired = ended
		for range unprovenWork - len(key.Secrets) - len(key.Retired) {
			standIn.Verify(*buf, c.Signature)
		}
	}
	if cap(*buf) <= maxSignBuffer {
		signBuffers.Put(buf)
	}
}

// maxSignBuffer is the largest buffer that is kept, in bytes. The string to
// sign of an accepted request fits. Only a refused request can have longer
// headers.
const maxSignBuffer = 2 * maxTarget

// signBuffers holds buffers for strings to sign, of type *[]byte.
var signBuffers = sync.Pool{New: func() any {
	buf := make([]byte, 0, 512)
	return &buf
}}

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

// LockShare returns how many of the failures that lock a key one [Holder] can add while
// the key is in use by another: half of lock_after, at most 25.
func LockShare(lockAfter int) int { return min(25, max(1, lockAfter/2)) }
