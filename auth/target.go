package auth

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTarget is the largest request target in bytes.
const maxTarget = 8 << 10

// A Target is a request target that can be read in one way only.
type Target struct {
	Raw      string // as it came over the wire; this is what is signed and forwarded
	RawPath  string // Raw up to the first question mark
	RawQuery string // what follows that question mark
	Path     string // RawPath with its percent escapes decoded
}

// CheckMethod refuses every method but GET, HEAD, POST, PUT, PATCH and DELETE.
// Methods are compared exactly: a lower-case one is another method.
func CheckMethod(method string) *Refusal {
	if methodIndex(method) < 0 {
		return Refuse(MethodNotAllowed, "")
	}
	return nil
}

// ParseTarget parses a request target as it came over the wire. It refuses a
// target that two parsers could read in two ways:
//
//   - any form but the origin form (a path, with or without a query), a target
//     of more than 8 KiB, and one with a '#';
//   - a path with an empty, "." or ".." segment, also percent-encoded or before
//     a ';', or with a segment of blanks and dots only, which some servers drop.
//     One slash at the end is allowed;
//   - a path with an encoded slash, backslash, NUL or control byte;
//   - a target with an unencoded control byte, space or byte from 0x80; in the
//     path also { } | " < > ^ ` and the backslash, which some HTTP libraries
//     rewrite;
//   - a percent sign that two hexadecimal digits do not follow, in the path or
//     in the query;
//   - a path with overlong UTF-8, which spells a character in more bytes than
//     needed, such as %c0%af for a slash;
//   - a path with an escape inside an escape, if the inner one would be refused:
//     %252e%252e and %252f are refused like %2e%2e and %2f. A backend that
//     decodes twice would see dots and a slash, and no identifier needs them.
//
// Other encoded percent signs, such as 50%25 and 100%25ff, are accepted.
//
// The refusal's text tells the client which of these faults was found. It
// repeats no input. ParseTarget allocates only to decode a path that holds
// escapes.
func ParseTarget(raw string) (Target, *Refusal) {
	switch {
	case len(raw) > maxTarget:
		return Target{}, badTarget("The request target is longer than 8 KiB")
	case raw == "" || raw[0] != '/':
		return Target{}, badTarget("The request target must be a path that starts with a slash, without scheme and host")
	}
	t := Target{Raw: raw, RawPath: raw}
	if i := strings.IndexByte(raw, '?'); i >= 0 {
		t.RawPath, t.RawQuery = raw[:i], raw[i+1:]
	}
	escapes, fault := checkPathBytes(t.RawPath)
	if fault == "" {
		fault = checkQueryBytes(t.RawQuery)
	}
	if fault != "" {
		return Target{}, badTarget(fault)
	}
	t.Path = t.RawPath
	if escapes {
		t.Path = decodePath(t.RawPath)
	}
	if fault = checkSegments(t.Path); fault == "" && escapes {
		fault = checkHidden(t.Path)
	}
	if fault != "" {
		return Target{}, badTarget(fault)
	}
	return t, nil
}

// decodePath decodes a path whose escapes are known to be well formed.
func decodePath(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			c, _ = escapedByte(path, i)
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String()
}

// The texts for the client of faults that more than one check can find.
const (
	faultEscape  = "The request target holds a percent sign that two hexadecimal digits do not follow"
	faultHash    = "The request target holds a '#'; write %23 for the character, and send no fragment"
	faultByte    = "The request target holds a space, a control byte or a byte beyond ASCII; percent-encode it"
	faultSlash   = "The path holds a percent-encoded slash or backslash"
	faultControl = "The path holds a percent-encoded control byte"
	faultSegment = "The path holds an empty, '.' or '..' segment, or one of blanks and dots alone"
	faultUTF8    = "The path holds an overlong UTF-8 sequence"
)

// checkPathBytes returns whether a raw path holds escapes, and the first fault
// of its bytes, or "".
func checkPathBytes(path string) (escapes bool, fault string) {
	for i := 0; i < len(path); i++ {
		switch c := path[i]; c {
		case '%':
			b, ok := escapedByte(path, i)
			if !ok {
				return true, faultEscape
			}
			if fault := checkDecodedByte(b); fault != "" {
				return true, fault
			}
			escapes = true
			i += 2
		case '{', '}', '|', '"', '<', '>', '^', '`', '\\':
			return escapes, "The path holds one of { } | \" < > ^ ` or a backslash; percent-encode it"
		default:
			if fault := checkRawByte(c); fault != "" {
				return escapes, fault
			}
		}
	}
	return escapes, ""
}

// checkQueryBytes returns the first fault of the bytes of a raw query, or "".
func checkQueryBytes(query string) string {
	for i := 0; i < len(query); i++ {
		if query[i] == '%' {
			if _, ok := escapedByte(query, i); !ok {
				return faultEscape
			}
		} else if fault := checkRawByte(query[i]); fault != "" {
			return fault
		}
	}
	return ""
}

func checkRawByte(c byte) string {
	switch {
	case c == '#':
		return faultHash
	case c <= ' ' || c >= 0x7f:
		return faultByte
	default:
		return ""
	}
}

func checkDecodedByte(c byte) string {
	switch {
	case c == '/' || c == '\\':
		return faultSlash
	case c < ' ' || c == 0x7f:
		return faultControl
	default:
		return ""
	}
}

// escapedByte returns the byte that the escape at i encodes, and false unless
// two hexadecimal digits follow the percent sign at i.
func escapedByte(s string, i int) (byte, bool) {
	if i+2 >= len(s) {
		return 0, false
	}
	b, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
	return byte(b), err == nil
}

// checkSegments returns a fault when a server might drop or resolve a segment
// of the path, else "". For some servers the text after a ';' is a parameter,
// so the part before it is checked.
func checkSegments(path string) string {
	for rest, more := path[1:], true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" && !more {
			return "" // the one slash at the end, or the path "/"
		}
		if vanishes(segment) {
			return faultSegment
		}
	}
	return ""
}

func badTarget(message string) *Refusal {
	return &Refusal{Reason: BadTarget, Message: message, Log: message}
}

// checkHidden returns the fault of a decoded path that a second decoding would
// change into a refused one, or that holds overlong UTF-8. It returns "" for
// any other path.
func checkHidden(path string) string {
	if fault := checkOverlong(path); fault != "" {
		return fault
	}
	if strings.IndexByte(path, '%') < 0 {
		return ""
	}
	hidden := decodeHidden(path)
	if strings.Count(hidden, "/") != strings.Count(path, "/") || strings.IndexByte(hidden, '\\') >= 0 {
		return faultSlash
	}
	for i := range len(hidden) {
		if fault := checkDecodedByte(hidden[i]); hidden[i] != '/' && fault != "" {
			return fault
		}
	}
	return checkSegments(hidden)
}

// decodeHidden returns a decoded path with the escapes in it decoded. The
// percent sign of an escape may be escaped any number of times.
func decodeHidden(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			end := i
			for strings.HasPrefix(path[end+1:], "25") {
				end += 2
			}
			if hidden, ok := escapedByte(path, end); ok {
				c, i = hidden, end+2
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// checkOverlong returns a fault when the path holds a byte sequence that a
// lenient UTF-8 decoder reads as a character which has a shorter spelling. It
// returns "" for any other path.
func checkOverlong(path string) string {
	for i := 0; i+1 < len(path); i++ {
		lead, next := path[i], path[i+1]
		switch {
		case lead < 0xc0 || next < 0x80 || next > 0xbf:
		case lead <= 0xc1, lead == 0xe0 && next < 0xa0, lead == 0xf0 && next < 0x90:
			return faultUTF8
		}
	}
	return ""
}

// Some servers are lenient about the segments of a path. They drop the text
// after a ';', blanks around a segment, dots at its end, or an extension. To
// fold a segment is to read it as the most lenient of these servers would.

// isPlain reports whether no segment of a decoded path can fold to anything
// but itself.
func isPlain(path string) bool {
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == ';', c == '.', c == ' ', c == '+', c == '%', c >= utf8.RuneSelf:
			return false
		}
	}
	return true
}

// foldsTo reports whether the part is the literal, in any case, with blanks
// around it, dots behind it, parameters or an extension.
func foldsTo(part, literal string) bool {
	rest := strings.TrimLeftFunc(part, isBlank)
	for i := range len(literal) {
		_, size := utf8.DecodeRuneInString(rest)
		if !strings.EqualFold(rest[:size], literal[i:i+1]) {
			return false
		}
		rest = rest[size:]
	}
	rest = strings.TrimLeftFunc(rest, isBlank)
	return rest == "" || rest[0] == ';' || rest[0] == '.'
}

// isBlank reports whether a server may drop the character at the edge of a
// segment: white space, the '+' that forms write for a space, characters
// without a width, and bytes that are not valid UTF-8.
func isBlank(r rune) bool {
	return r == '+' || r == utf8.RuneError || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)
}

// vanishes reports whether nothing is left of a segment once it is folded. A dot
// at its start is not that of an extension.
func vanishes(segment string) bool {
	name, _, _ := strings.Cut(segment, ";")
	if before, _, found := strings.Cut(name, "."); found && before != "" && strings.TrimFunc(before, isBlank) == "" {
		return true
	}
	return strings.TrimFunc(name, func(r rune) bool { return r == '.' || isBlank(r) }) == ""
}

// UpstreamTarget returns the target that the upstream receives: the raw one,
// byte for byte, with one exception. In the second path of the sensitive card
// details, /api/v1/card/{cardId}/sensitive, also with a slash at the end, the
// segment "card" becomes "cards". So the upstream receives only one of the two
// paths.
func UpstreamTarget(t Target) string {
	if !matchesPath(sensitiveAlias, t.Path) {
		return t.Raw
	}
	// Raw and decoded segments correspond, because a target with an encoded
	// slash is refused. The third segment is "card" in some spelling.
	start := 0
	for range 3 {
		start += strings.IndexByte(t.RawPath[start:], '/') + 1
	}
	end := start + strings.IndexByte(t.RawPath[start:], '/')
	return t.Raw[:start] + "cards" + t.Raw[end:]
}

// sensitiveAlias is the second sensitive path.
var sensitiveAlias = []segment{{literal: "api"}, {literal: "v1"}, {literal: "card"}, {placeholder: true}, {literal: "sensitive"}}

// matchesPath reports whether a decoded path, which begins with a slash,
// consists of the segments, with or without a slash at the end.
func matchesPath(segments []segment, path string) bool {
	rest := strings.TrimSuffix(path[1:], "/")
	return strings.Count(rest, "/")+1 == len(segments) && matchSegments(segments, rest)
}
