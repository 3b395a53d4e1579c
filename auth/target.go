package auth

import (
	"strings"
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
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE":
		return nil
	default:
		return Refuse(MethodNotAllowed, "")
	}
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
