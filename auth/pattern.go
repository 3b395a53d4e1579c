package auth

import (
	"errors"
	"fmt"
	"strings"
)

// apiPrefix begins every path that is authenticated.
const apiPrefix = "/api/v1/"

// A segment is one part of a pattern between slashes: a literal, compared
// without regard to ASCII case, or a placeholder for one non-empty segment.
type segment struct {
	literal     string
	placeholder bool
}

// check returns the segments of the definition's pattern below /api/v1/, or an
// error that names the fault of the definition.
func (d *OperationDef) check() ([]segment, error) {
	switch d.Name {
	case OtherOperation, "total", "default":
		return nil, errors.New("the name is reserved; choose another")
	}
	if !isName(d.Name, lowerLetters, lowerLetters+digits+"_") {
		return nil, errors.New("the name must be lower-case letters, digits and underscores, with a letter first")
	}
	switch d.Method {
	case "GET", "POST", "PUT", "PATCH", "DELETE":
	case "HEAD":
		return nil, errors.New("the method HEAD is matched as GET; define GET")
	default:
		return nil, fmt.Errorf("unknown method %q; use GET, POST, PUT, PATCH or DELETE, in upper case", d.Method)
	}
	if !isPlainScope(d.Scope) {
		return nil, fmt.Errorf("bad scope %q: write resource:action in lower case, such as cards:read", d.Scope)
	}
	if d.MaxBody < 0 {
		return nil, errors.New("max_body must not be negative")
	}
	segments, err := parsePattern(d.Pattern)
	if err != nil {
		return nil, fmt.Errorf("bad pattern %q: %w", d.Pattern, err)
	}
	return segments, nil
}

// parsePattern returns the segments that follow /api/v1/. One slash at the end
// makes no difference.
func parsePattern(pattern string) ([]segment, error) {
	rest, ok := strings.CutPrefix(pattern, apiPrefix)
	if !ok {
		return nil, errors.New("it must begin with " + apiPrefix)
	}
	if rest = strings.TrimSuffix(rest, "/"); rest == "" {
		return nil, errors.New("it must name something below " + apiPrefix)
	}
	parts := strings.Split(rest, "/")
	segments := make([]segment, len(parts))
	for i, part := range parts {
		s, err := parseSegment(part)
		if err != nil {
			return nil, err
		}
		segments[i] = s
	}
	return segments, nil
}

func parseSegment(part string) (segment, error) {
	switch part {
	case "":
		return segment{}, errors.New("it has an empty segment")
	case ".", "..":
		return segment{}, errors.New("it has a . or .. segment, which no request may have")
	}
	if name, ok := strings.CutPrefix(part, "{"); ok {
		name, ok = strings.CutSuffix(name, "}")
		if !ok || !isName(name, letters+"_", letters+digits+"_") {
			return segment{}, fmt.Errorf("the placeholder %q must fill its segment, as in {cardId}", part)
		}
		return segment{placeholder: true}, nil
	}
	if strings.ContainsAny(part, "{}") {
		return segment{}, fmt.Errorf("the placeholder in %q must fill its segment, as in {cardId}", part)
	}
	if strings.Contains(part, "*") {
		return segment{}, errors.New("it has a *; write a {placeholder}, which stands for one segment")
	}
	for i := 0; i < len(part); i++ {
		if c := part[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`%?#;"<>^|\`+"`", c) >= 0 {
			return segment{}, fmt.Errorf("the segment %q must be plain ASCII text, as it is after decoding", part)
		}
	}
	return segment{literal: part}, nil
}

// shapeOf returns a text that is equal for patterns that match the same paths.
func shapeOf(segments []segment) string {
	var b strings.Builder
	for _, s := range segments {
		if s.placeholder {
			b.WriteString("/{}")
		} else {
			b.WriteString("/" + asciiLower(s.literal))
		}
	}
	return b.String()
}

// equalFold compares without regard to the case of ASCII letters. Unlike
// strings.EqualFold it leaves other letters alone: the Kelvin sign is no k.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if a[i] != b[i] && lowerByte(a[i]) != lowerByte(b[i]) {
			return false
		}
	}
	return true
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func asciiLower(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = lowerByte(b[i])
	}
	return string(b)
}

// hasAPIPrefix reports whether a decoded path begins with /api/v1/.
func hasAPIPrefix(path string) bool {
	return len(path) >= len(apiPrefix) && equalFold(path[:len(apiPrefix)], apiPrefix)
}

// matchSegments reports whether the segments match the rest of a path, which
// has as many segments.
func matchSegments(segments []segment, rest string) bool {
	for i := range segments {
		part, after, _ := strings.Cut(rest, "/")
		rest = after
		if segments[i].placeholder {
			if part == "" {
				return false
			}
		} else if !equalFold(part, segments[i].literal) {
			return false
		}
	}
	return true
}
