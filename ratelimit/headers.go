package ratelimit

import (
	"strconv"
	"time"
)

// Tightest returns the index of the bucket whose numbers the client should
// see, or -1 when states is empty. If some buckets refuse the request, it is
// the one of them with the longest wait. If none does, it is the bucket that
// allows the fewest further requests. Of equal buckets it is the one that has
// all its tokens back later.
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

// RetryAfter returns a wait in whole seconds, rounded up, for the header
// Retry-After. A negative wait is 0.
func RetryAfter(wait time.Duration) int64 {
	return ceilDiv(max(int64(wait), 0), int64(time.Second))
}

// AppendRateLimit appends the value of the header RateLimit of
// draft-ietf-httpapi-ratelimit-headers and returns the extended slice. The
// value holds, for each bucket, the tokens left and the seconds until one more
// token is left, such as `"issue_card";r=50;t=1`.
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
// the same draft and returns the extended slice. The value holds, for each
// bucket, the quota and the seconds in which the quota comes back, such as
// `"issue_card";q=60;w=60`. The quota is the burst, so that the remaining
// tokens never exceed it. If the burst comes back in less than a second, the
// quota is the number of tokens that come back in one second.
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

// appendItem appends the name of a list member as a structured string, after a
// comma unless index is 0. A character that the format does not allow in a
// string becomes an underscore. Names of buckets have none: they are operation
// names, of letters, digits and underscores.
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
