package translate

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDatesExist compares every day, and days that do not exist, with the
// calendar of the standard library.
func TestDatesExist(t *testing.T) {
	digits := func(dst []byte, n, width int) []byte {
		for power := []int{1, 10, 100, 1000}[width-1]; power > 0; power /= 10 {
			dst = append(dst, byte('0'+n/power%10))
		}
		return dst
	}
	for year := range 2800 {
		if year > 500 && year < 1850 {
			continue
		}
		for month := range 14 {
			for day := range 33 {
				text := digits(append(digits(append(digits(nil, year, 4), '-'), month, 2), '-'), day, 2)
				_, err := time.Parse(time.DateOnly, string(text))
				if want := err == nil && year > 0; validDate(text) != want {
					t.Fatalf("%s: valid is %v, want %v", text, !want, want)
				}
			}
		}
	}
}

// TestDateTimesOfStandardLibrary: everything that Go writes as RFC 3339 is
// accepted.
func TestDateTimesOfStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("", 60*rapid.IntRange(-23*60-59, 23*60+59).Draw(t, "zone"))
		at := time.Unix(rapid.Int64Range(-62_000_000_000, 250_000_000_000).Draw(t, "unix"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).In(zone)
		if text := at.Format(time.RFC3339Nano); !validDateTime([]byte(text)) {
			t.Fatalf("%s is refused", text)
		}
	})
}
