package auth_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

func TestInWindow(t *testing.T) {
	now := time.Unix(1750000000, 999_999_999) // whole seconds are compared
	tests := []struct {
		timestamp int64
		window    time.Duration
		want      bool
	}{
		{1750000000, 300 * time.Second, true},
		{1750000300, 300 * time.Second, true},
		{1749999700, 300 * time.Second, true},
		{1750000301, 300 * time.Second, false},
		{1749999699, 300 * time.Second, false},
		{1750000000, 0, true},
		{1749999999, 0, false},
		{0, 300 * time.Second, false},
		{0, 100 * 365 * 24 * time.Hour, false}, // malformed is outside of every window
	}
	for _, test := range tests {
		if got := auth.InWindow(now, test.timestamp, test.window); got != test.want {
			t.Errorf("timestamp %d, window %v: %v", test.timestamp, test.window, got)
		}
	}
}

func FuzzParseTimestamp(f *testing.F) {
	for _, s := range []string{"1750000000", "0000000000", "+175000000", "9999999999", "17500000000", "1_75000000", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := auth.ParseTimestamp(s)
		if ok && (strconv.FormatInt(n, 10) != s || len(s) != 10) {
			t.Fatalf("%q is read as %d", s, n)
		}
		if want, err := strconv.ParseInt(s, 10, 64); !ok && err == nil && want >= 1e9 && want < 1e10 && strconv.FormatInt(want, 10) == s {
			t.Fatalf("%q is refused", s)
		}
		if !ok && n != 0 {
			t.Fatalf("%q is refused and read as %d", s, n)
		}
	})
}
