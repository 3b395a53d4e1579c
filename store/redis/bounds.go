package redis

import "time"

const (
	spanMillis = 128_000 // of one nonce hash
	maxSkew    = 5 * time.Second
	// maxLag is for how long a master with replicas is used that hears of none:
	// it may be cut off from them, and another master in its place.
	maxLag = 3 * time.Second
	// MaxWindow is the longest Claim.Window: settle.lua searches for nonces as
	// far ahead as such a window lets them live.
	MaxWindow = time.Hour
	// longestLife of a nonce, that of a request stamped a whole window ahead.
	longestLife = 2*MaxWindow + 11*time.Second
	// spanReach is how many spans beyond the present one the longest life ends.
	spanReach = int64(longestLife/time.Millisecond)/spanMillis + 2
)

// windowLinger is how long a wider window is taken to be in use after the last
// request was accepted under it.
const windowLinger = 10 * time.Minute
