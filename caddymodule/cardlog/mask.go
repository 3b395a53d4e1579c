package cardlog

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// masked stands where a log line leaves something out.
const masked = "***"

// longestDigits is the length of a run of digits that no segment of a path may
// show: card numbers have 12 to 19.
const longestDigits = 11

// maskTarget returns a request target or URL whose path shows no card number
// and whose query shows names but no values.
func maskTarget(target string) string {
	path, query, found := strings.Cut(target, "?")
	path = MaskPath(path)
	if !found {
		return path
	}
	return path + "?" + maskQuery(query)
}

// placeInText finds what names a machine, a port or a file in an error text.
var placeInText = regexp.MustCompile(`\S*(?::[0-9]+|/)\S*`)

// MaskPlaces returns an error text that may be shown outside, such as to a load
// balancer, without the places that it names.
func MaskPlaces(text string) string { return placeInText.ReplaceAllString(text, masked) }

// MaskPath returns a path whose segments show no card number.
func MaskPath(path string) string {
	if !HidesCardNumber(path) {
		return path
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if HidesCardNumber(segment) && uuid.Validate(segment) != nil {
			segments[i] = masked
		}
	}
	return strings.Join(segments, "/")
}

// cardNumber finds a card number in a text, also in groups.
var cardNumber = regexp.MustCompile(`[0-9](?:[ -]?[0-9]){11,}`)

// maskText returns a text that may quote what somebody has sent, as errors of
// net/http do, without what looks like a card number.
func maskText(text string) string {
	if !HidesCardNumber(text) {
		return text
	}
	return cardNumber.ReplaceAllString(text, masked)
}

// HidesCardNumber reports whether the text, decoded and without separators, holds
// a run of digits as long as a card number.
func HidesCardNumber(text string) bool {
	if strings.Contains(text, "%") {
		if decoded, err := url.PathUnescape(text); err == nil {
			text = decoded
		}
	}
	run := 0
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9':
			if run++; run > longestDigits {
				return true
			}
		case c == ' ' || c == '-' || c == '+' || c == '.':
		default:
			run = 0
		}
	}
	return false
}

// maskQuery keeps the names of parameters that look like names.
func maskQuery(query string) string {
	if query == "" {
		return ""
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, found := strings.Cut(pair, "=")
		switch {
		case !plainName(name):
			pairs[i] = masked
		case found:
			pairs[i] = name + "=" + masked
		}
	}
	return strings.Join(pairs, "&")
}

// plainName reports whether a parameter's name is one, and not a value that
// somebody wrote without a name.
func plainName(name string) bool {
	if len(name) > 32 || HidesCardNumber(name) {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-', c == '.', c == '[', c == ']':
		default:
			return false
		}
	}
	return true
}
