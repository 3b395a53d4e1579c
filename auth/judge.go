package auth

import (
	"net/netip"
	"sync"
	"time"
)

// A Request is what the judge looks at, beside the key and the clock.
type Request struct {
	Method      string
	Target      string // the request target as it came over the wire
	Credentials Credentials
	// Client is the address of the client, as the server knows it; the zero
	// address passes no whitelist.
	Client netip.Addr
	Scope  string // that the operation needs
}

// A Judgement is what can be said of a request without shared state and
// without its body.
type Judgement struct {
	// Failed holds which of rules 2, 3, 4, 6, 7, 10 and 12 the request fails.
	Failed Rules
	// SecretVersion is that of the secret which verified the signature; 0 when
	// none did.
	SecretVersion int
	// Retired is the secret of the key that verifies the signature and has
	// ended; nil when a live one does, or none. The request fails rule 10 all
	// the same.
	Retired *Secret
}

// Judge checks rules 2, 3, 4, 6, 7, 10 and 12 in one pass, all of them, so
// that the first that fails is known and also what else does. The key is nil
// when X-API-Key names none; then Failed is rule 2 alone, at the cost of a
// wrong signature. The window is that of rule 7. Judge does no I/O and does not
// allocate.
//
// Rule 10 is about the X-Body-Hash header, so it is known before a byte of the
// body is read. All secrets of the key are tried, also when the first one fits.
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

// unprovenWork is how many HMACs a request costs that no live secret of its key
// has signed, whatever the key has: a key has at most two live secrets and two
// that are retired. Only who signs with a live secret may see how many there
// are.
const unprovenWork = 4

// standIn stands in for secrets that a key does not have. Nothing is ever
// accepted by it.
var standIn = NewSecret(0, "stands in for a secret that is not there", time.Time{})

// noKey is the key of a request whose X-API-Key names none.
var noKey = &Key{}

// verifySignature tries all secrets of the key and notes the newest live one
// that fits, or else one that has ended.
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

// maxSignBuffer is the largest buffer that is kept, in bytes: room for the
// longest target; headers can be longer, but not in a request that is good.
const maxSignBuffer = 2 * maxTarget

// signBuffers holds buffers for strings to sign, of type *[]byte.
var signBuffers = sync.Pool{New: func() any {
	buf := make([]byte, 0, 512)
	return &buf
}}
