package translate

import "time"

const (
	dateLength = len("2006-01-02")
	// midnight completes a calendar day to a date-time of that day.
	midnight = "T00:00:00Z"
)

// validDate reports whether s is YYYY-MM-DD and the day exists. Years begin
// with 0001.
func validDate(s []byte) bool {
	if len(s) != dateLength || s[4] != '-' || s[7] != '-' {
		return false
	}
	year, month, day := number(s[:4]), number(s[5:7]), number(s[8:])
	return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
}

// validDateTime reports whether s is an ISO 8601 date-time in the extended
// format: a day that exists, T, and a time.
func validDateTime(s []byte) bool {
	return len(s) > dateLength && validDate(s[:dateLength]) && s[dateLength] == 'T' && validTime(s[dateLength+1:])
}

// hasDate reports whether s has the form's shape of a date, whether or not the
// day exists: four, two and two digits, and in snake_case T and a time.
func (f Form) hasDate(s []byte) bool {
	if len(s) < dateLength || !all(s[:4], digit) || s[4] != '-' || !all(s[5:7], digit) || s[7] != '-' || !all(s[8:dateLength], digit) {
		return false
	}
	if rest := s[dateLength:]; f == SnakeCase {
		return len(rest) > 0 && rest[0] == 'T' && validTime(rest[1:])
	}
	return len(s) == dateLength
}

// date converts a text that begins with a day that exists, alone or before T,
// t or a space, to the form. It returns false for any other text, and in
// snake_case when what follows the day is not a time.
func (f Form) date(s []byte) (string, bool) {
	if len(s) < dateLength || !validDate(s[:dateLength]) {
		return "", false
	}
	day, rest := string(s[:dateLength]), s[dateLength:]
	switch {
	case len(rest) > 0 && !all(rest[:1], timeStart):
		return "", false
	case f == CamelCase:
		return day, true
	case len(rest) == 0:
		return day + midnight, true
	}
	return day + "T" + string(rest[1:]), validTime(rest[1:])
}

// validTime reports whether s is an ISO 8601 time in the extended format:
// hours and minutes, optional seconds with an optional fraction, and an
// optional zone.
func validTime(s []byte) bool {
	if len(s) < len("15:04") || s[2] != ':' || !within(s[:2], 23) || !within(s[3:5], 59) {
		return false
	}
	s = s[len("15:04"):]
	if len(s) >= len(":05") && s[0] == ':' {
		if !within(s[1:3], 60) { // 60: a leap second
			return false
		}
		s = s[len(":05"):]
		if len(s) > 0 && (s[0] == '.' || s[0] == ',') {
			digits := span(s[1:], digit)
			if digits == 0 {
				return false
			}
			s = s[1+digits:]
		}
	}
	return validZone(s)
}

// validZone reports whether s is empty, Z, ±hh:mm, ±hhmm or ±hh.
func validZone(s []byte) bool {
	if len(s) == 0 || string(s) == "Z" {
		return true
	}
	if s[0] != '+' && s[0] != '-' {
		return false
	}
	switch len(s) {
	case len("+hh"):
		return within(s[1:], 23)
	case len("+hhmm"):
		return within(s[1:3], 23) && within(s[3:], 59)
	case len("+hh:mm"):
		return within(s[1:3], 23) && s[3] == ':' && within(s[4:], 59)
	}
	return false
}

// within reports whether s is all digits and at most limit.
func within(s []byte, limit int) bool {
	n := number(s)
	return n >= 0 && n <= limit
}

// number returns the value of a few digits, and -1 for any other text.
func number(s []byte) int {
	if !all(s, digit) {
		return -1
	}
	n := 0
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	return n
}

// daysIn returns the number of days of the month.
func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
