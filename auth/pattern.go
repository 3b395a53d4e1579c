package auth

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// apiPrefix begins the paths of the operations that an issuer answers.
	apiPrefix = "/api/v1/"
	// ownPrefix begins the paths of the operations that the gateway answers.
	ownPrefix = "/gateway/v1/"
)

// A segment is one part of a pattern between slashes: a literal, compared
// without regard to ASCII case, or a placeholder for one non-empty segment.
type segment struct {
	literal     string
	placeholder bool
}

// check returns an error that names the fault of a configured definition, nil
// where there is none. It does not look at the pattern.
func (d *OperationDef) check() error {
	switch d.Name {
	case OtherOperation, "total", "default", KeyOperation, EchoOperation, RotateOperation:
		return errors.New("the name is reserved; choose another")
	}
	if !isName(d.Name, lowerLetters, lowerLetters+digits+"_") {
		return errors.New("the name must be lower-case letters, digits and underscores, with a letter first")
	}
	switch d.Method {
	case "GET", "POST", "PUT", "PATCH", "DELETE":
	case "HEAD":
		return errors.New("the method HEAD is matched as GET; define GET")
	default:
		return fmt.Errorf("unknown method %q; use GET, POST, PUT, PATCH or DELETE, in upper case", d.Method)
	}
	if !isPlainScope(d.Scope) {
		return fmt.Errorf("bad scope %q: write resource:action in lower case, such as cards:read", d.Scope)
	}
	if d.MaxBody < 0 {
		return errors.New("max_body must not be negative")
	}
	return nil
}

// parsePattern returns the segments of a pattern that begins with the prefix,
// those of the prefix included. One slash at the end makes no difference.
func parsePattern(pattern, prefix string) ([]segment, error) {
	rest, ok := strings.CutPrefix(pattern, prefix)
	if !ok {
		return nil, errors.New("it must begin with " + prefix)
	}
	if rest = strings.TrimSuffix(rest, "/"); rest == "" {
		return nil, errors.New("it must name something below " + prefix)
	}
	parts := strings.Split(prefix[1:]+rest, "/")
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

// matchSegments reports whether the segments match a path without its first
// slash, which has as many segments.
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
