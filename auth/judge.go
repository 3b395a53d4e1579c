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
}

// Judge checks rules 2, 3, 4, 6, 7, 10 and 12 in one pass, all of them, so
// that the first that fails is known and also what else does. The key is nil
// when X-API-Key names none; then Failed is rule 2 alone, at the cost of the
// same HMAC. The window is that of rule 7. Judge does no I/O and does not
// allocate.
//
// Rule 10 is about the X-Body-Hash header, so it is known before a byte of the
// body is read. All live secrets of the key are tried, also when the first one
// fits.
func Judge(r *Request, key *Key, window time.Duration, now time.Time) Judgement {
	if key == nil {
		verifySignature(r, unknownKeySecrets, now)
		return Judgement{Failed: RuleKnown}
	}
	var j Judgement
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
	var ok bool
	if j.SecretVersion, ok = verifySignature(r, key.Secrets, now); !ok {
		j.Failed |= RuleSignature
	}
	if !key.Scopes.Has(r.Scope) {
		j.Failed |= RuleScope
	}
	return j
}

// unknownKeySecrets stand in for the secret of a key that does not exist, so
// that it costs what a known one costs. Nothing is ever accepted by them.
var unknownKeySecrets = []*Secret{NewSecret(0, "stands in for the secret of an unknown key", time.Time{})}

// verifySignature tries all live secrets and returns the version of the newest
// that fits. A key without a live secret costs the same as one with.
func verifySignature(r *Request, secrets []*Secret, now time.Time) (version int, ok bool) {
	buf := signBuffers.Get().(*[]byte)
	c := &r.Credentials
	*buf = AppendStringToSign((*buf)[:0], r.Method, r.Target, c.Timestamp, c.Nonce, c.BodyHash)
	tried := false
	for _, s := range secrets {
		if !s.Live(now) {
			continue
		}
		tried = true
		if s.Verify(*buf, c.Signature) && !ok {
			version, ok = s.Version(), true
		}
	}
	if !tried {
		unknownKeySecrets[0].Verify(*buf, c.Signature)
	}
	if cap(*buf) <= maxSignBuffer {
		signBuffers.Put(buf)
	}
	return version, ok
}

// maxSignBuffer is the largest buffer that is kept, in bytes: room for the
// longest target; headers can be longer, but not in a request that is good.
const maxSignBuffer = 2 * maxTarget

// signBuffers holds buffers for strings to sign, of type *[]byte.
var signBuffers = sync.Pool{New: func() any {
	buf := make([]byte, 0, 512)
	return &buf
}}
