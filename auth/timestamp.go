package auth

import "time"

// ParseTimestamp returns a timestamp in Unix seconds. The text must be ten
// decimal digits without a leading zero, so every moment from 2001 to 2286 has
// one spelling. For any other text it returns false.
func ParseTimestamp(s string) (int64, bool) {
	if len(s) != 10 || s[0] == '0' {
		return 0, false
	}
	var n int64
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// InWindow reports whether the timestamp, in Unix seconds, differs from now by
// at most the window. Whole seconds are compared: a difference of exactly the
// window is inside. The timestamp 0, of a malformed header, is always outside.
func InWindow(now time.Time, timestamp int64, window time.Duration) bool {
	if timestamp <= 0 {
		return false
	}
	d := now.Unix() - timestamp
	if d < 0 {
		d = -d
	}
	return d <= int64(window/time.Second)
}
