package auth

import (
	"crypto/sha256"
	"time"
)

// NonceDigest returns the first 16 bytes of the nonce's SHA-256. A store keeps
// this digest instead of the nonce: its size is fixed, and it cannot be sent
// again as a nonce.
func NonceDigest(nonce string) [16]byte {
	sum := sha256.Sum256([]byte(nonce))
	return [16]byte(sum[:16])
}

// NonceLifetime returns how long the nonce of a request that is accepted at now
// must be remembered: until its timestamp (Unix seconds) can no longer pass the
// window, but at least the length of the window, plus ten seconds of margin.
func NonceLifetime(now time.Time, timestamp int64, window time.Duration) time.Duration {
	valid := time.Unix(timestamp, 0).Add(window + time.Second).Sub(now)
	return max(window, valid) + 10*time.Second
}

// ValidNonce reports whether s is allowed as X-Nonce: 1 to 256 visible ASCII
// characters.
func ValidNonce(s string) bool {
	if s == "" || len(s) > maxNonce {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// maxNonce is the largest length of X-Nonce in bytes.
const maxNonce = 256
