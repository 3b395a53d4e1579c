package auth

import (
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
// rule 2 alone, and the request takes as long as one with a wrong signature, so
// that the time does not show which keys exist. The window is that of rule 7.
// Judge does no I/O and does not allocate.
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
