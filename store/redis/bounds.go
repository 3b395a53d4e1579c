package redis

import "time"

const (
	spanMillis = 128_000 // of one nonce hash
	maxSkew    = 5 * time.Second
	// maxLag is how long a master with replicas is used while none of them
	// answers. After that it may be cut off, and another master may have replaced
	// it.
	maxLag = 3 * time.Second
	// MaxWindow is the longest Claim.Window: settle.lua searches nonces as far
	// ahead as they can live with this window.
	MaxWindow = time.Hour
	// longestLife of a nonce, that of a request stamped a whole window ahead.
	longestLife = 2*MaxWindow + 11*time.Second
	// spanReach is the number of spans after the current one in which a nonce can
	// still live.
	spanReach = int64(longestLife/time.Millisecond)/spanMillis + 2
)

// maxFloorAhead is how far a floor may be ahead of this gateway's clock. Gateways
// raise floors to the time of servers whose clock is right, so maxSkew would do; what
// is damaged is further away than a month.
const maxFloorAhead = 30 * 24 * time.Hour

// windowLinger is how long a wider window counts as in use after the last request
// that was accepted with it.
const windowLinger = 10 * time.Minute
