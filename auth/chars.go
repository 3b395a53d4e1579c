package auth

import "strings"

// The characters that names may contain.
const (
	lowerLetters = "abcdefghijklmnopqrstuvwxyz"
	letters      = lowerLetters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits       = "0123456789"
)

// isName reports whether s is one of the characters in first, followed by any
// number of those in rest.
func isName(s, first, rest string) bool {
	return s != "" && strings.IndexByte(first, s[0]) >= 0 && strings.Trim(s[1:], rest) == ""
}
