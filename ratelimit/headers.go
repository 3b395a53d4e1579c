package ratelimit

import (
	"strconv"
	"time"
)

// Tightest returns the index of the bucket whose numbers the client should
// see, or -1 when there is none: of the buckets that the request does not fit,
// the one with the longest wait; if it fits all, the one that allows the
// fewest further requests. Of equals it is the one that is full again later.
func Tightest(states []State) int {
	best := -1
	for i := range states {
		if best < 0 || states[i].tighterThan(&states[best]) {
			best = i
		}
	}
	return best
}

func (s *State) tighterThan(other *State) bool {
	switch {
	case s.Retry != other.Retry:
		return s.Retry > other.Retry
	case s.Retry == 0 && s.Requests != other.Requests:
		return s.Requests < other.Requests
	default:
		return s.Reset > other.Reset
	}
}

// RetryAfter returns a wait in whole seconds, rounded up, as the header
// Retry-After has it.
func RetryAfter(wait time.Duration) int64 {
	return ceilDiv(max(int64(wait), 0), int64(time.Second))
}

// AppendRateLimit appends the value of the header RateLimit of
// draft-ietf-httpapi-ratelimit-headers: per bucket the tokens left and the
// seconds until there is one more, such as `"issue_card";r=50;t=1`.
func AppendRateLimit(dst []byte, states []State) []byte {
	for i := range states {
		s := &states[i]
		dst = appendItem(dst, i, s.Bucket)
		dst = strconv.AppendInt(append(dst, ";r="...), s.Remaining, 10)
		dst = strconv.AppendInt(append(dst, ";t="...), RetryAfter(s.Next), 10)
	}
	return dst
}

// AppendRateLimitPolicy appends the value of the header RateLimit-Policy of
// the same draft: per bucket its quota and the window in seconds in which the
// quota comes back, such as `"issue_card";q=60;w=60`. The quota is the burst,
// so that the remaining tokens never exceed it; where the burst comes back in
// less than a second, it is the tokens of one second.
func AppendRateLimitPolicy(dst []byte, charges []Charge) []byte {
	for i := range charges {
		c := &charges[i]
		quota, window := c.Capacity/c.Unit, ceilDiv(ceilDiv(c.Capacity, c.Drain), 1e6)
		if c.Capacity/c.Drain < 1e6 {
			quota, window = c.Drain*1e6/c.Unit, 1
		}
		dst = appendItem(dst, i, c.Bucket)
		dst = strconv.AppendInt(append(dst, ";q="...), quota, 10)
		dst = strconv.AppendInt(append(dst, ";w="...), window, 10)
	}
	return dst
}

// appendItem begins a member of a list with a name as a structured string.
// Names of buckets are names of operations, letters, digits and underscores;
// anything that the format does not allow in a string becomes an underscore.
func appendItem(dst []byte, index int, name string) []byte {
	if index > 0 {
		dst = append(dst, ", "...)
	}
	dst = append(dst, '"')
	for i := range len(name) {
		b := name[i]
		if b < ' ' || b > '~' || b == '"' || b == '\\' {
			b = '_'
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}
