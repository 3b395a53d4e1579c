package auth

import "strings"

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

// sensitiveAlias is what follows /api/v1/ in the second sensitive path.
var sensitiveAlias = []segment{{literal: "card"}, {placeholder: true}, {literal: "sensitive"}}

// matchesPath reports whether a decoded path consists of /api/v1/ and the
// segments, with or without a slash at the end.
func matchesPath(segments []segment, path string) bool {
	path = strings.TrimSuffix(path, "/")
	if !hasAPIPrefix(path) {
		return false
	}
	rest := path[len(apiPrefix):]
	return strings.Count(rest, "/")+1 == len(segments) && matchSegments(segments, rest)
}
