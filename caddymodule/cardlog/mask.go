package cardlog

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// masked is written in place of a masked text.
const masked = "***"

// maskPasses is the most times that a text is searched. When a word is masked,
// the digits before and behind it can form a new run.
const maskPasses = 4

// Mask returns a text in which each possible card number is replaced, see
// [HidesCardNumber], together with the rest of its word or path segment.
func Mask(text string) string {
	for range maskPasses {
		runs := findRuns(text, len(text))
		if len(runs) == 0 {
			return text
		}
		text = without(text, runs)
	}
	if HidesCardNumber(text) {
		return masked
	}
	return text
}

// maskAll returns the masked texts. If nothing must be masked it returns its
// argument.
func maskAll(texts []string) []string {
	if !slices.ContainsFunc(texts, HidesCardNumber) {
		return texts
	}
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = Mask(text)
	}
	return out
}

// MaskLines returns a text with each line masked by itself, so that it keeps its
// lines.
func MaskLines(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		out.WriteString(Mask(body) + line[len(body):])
	}
	return out.String()
}

// without returns the text with the words of the runs masked.
func without(text string, runs []span) string {
	var out strings.Builder
	done := 0
	for _, run := range runs {
		if run.to <= done {
			continue // part of the word before
		}
		from := max(run.from, done)
		for from > done && inWord(text[from-1]) {
			from--
		}
		out.WriteString(text[done:from])
		out.WriteString(masked)
		for done = run.to; done < len(text) && inWord(text[done]); {
			done++
		}
	}
	out.WriteString(text[done:])
	return out.String()
}

// inWord reports whether a byte beside a run of digits is masked with it.
func inWord(c byte) bool {
	return isAlnum(c) || c >= utf8.RuneSelf || strings.IndexByte("-_.+~%", c) >= 0
}

// maskTarget returns a request target or URL whose path shows no card number
// and whose query shows names but no values.
func maskTarget(target string) string {
	path, query, found := strings.Cut(target, "?")
	if found {
		path += "?" + maskQuery(query)
	}
	return Mask(path)
}

// maskQuery masks the values of a query, and names that do not look like names.
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

const nameChars = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.[]"

// plainName reports whether the name of a parameter looks like a name, and not
// like a value that was sent without a name.
func plainName(name string) bool {
	return len(name) <= 32 && strings.Trim(name, nameChars) == ""
}

// queryInText finds the query of a target or URL that a text quotes.
var queryInText = regexp.MustCompile(`\?[^\s"']+`)

// maskText returns free text with its queries and card numbers masked.
func maskText(text string) string {
	if strings.Contains(text, "?") {
		text = queryInText.ReplaceAllString(text, "?"+masked)
	}
	return Mask(text)
}

// placeInText finds words of an error text that name a machine, a port or a file.
var placeInText = regexp.MustCompile(`\S*(?::[0-9]+|/)\S*`)

// MaskPlaces returns an error text without addresses and paths, so that it may be
// shown outside, such as to a load balancer.
func MaskPlaces(text string) string { return placeInText.ReplaceAllString(text, masked) }

// isAddress reports whether a text is an address or a network, and nothing
// else.
func isAddress(text string) bool {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.IsValid()
	}
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Zone() == ""
}
