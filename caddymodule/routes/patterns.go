package routes

import "strings"

// The patterns of Caddy's path matcher: `*` at one or both ends matches any text.
// Elsewhere, and with `?`, `[` and a backslash, they are those of path.Match. Those
// with placeholders, escapes or two slashes are known only by their text.

// unreadable reports whether what a pattern matches is not known here.
func unreadable(pattern string) bool {
	return strings.ContainsAny(pattern, "{%") || strings.Contains(pattern, "//")
}

const wild = `*?[\`

// pathCovers reports whether everything that pattern b matches is matched by a. It
// returns false where that is not certain.
func pathCovers(a, b string) bool {
	if a == b || a == "*" {
		return true
	}
	if unreadable(a) || unreadable(b) {
		return false
	}
	text, begins := strings.CutPrefix(a, "*")
	text, ends := strings.CutSuffix(text, "*")
	if text == "" || strings.Contains(text, "*") {
		return false
	}
	first, last := b, b // what each path begins and ends with that b matches
	if i := strings.IndexAny(b, wild); i >= 0 {
		first, last = b[:i], b[strings.LastIndexAny(b, wild)+1:]
	}
	switch {
	case begins && ends:
		return strings.Contains(first, text) || strings.Contains(last, text)
	case begins:
		return strings.HasSuffix(last, text)
	case ends:
		return strings.HasPrefix(first, text)
	default:
		return false
	}
}

// pathsOverlap reports whether some path may match both patterns.
func pathsOverlap(a, b string) bool {
	if unreadable(a) || unreadable(b) || strings.ContainsAny(a+b, wild[1:]) {
		return true
	}
	// after[j]: a[:i] and b[:j] may match the same text.
	after := make([]bool, len(b)+1)
	for j := range after {
		after[j] = strings.Trim(b[:j], "*") == ""
	}
	for i := range len(a) {
		before := after
		after = make([]bool, len(b)+1)
		after[0] = before[0] && a[i] == '*'
		for j := range len(b) {
			if a[i] == '*' || b[j] == '*' {
				after[j+1] = before[j+1] || after[j] || before[j]
			} else {
				after[j+1] = before[j] && a[i] == b[j]
			}
		}
	}
	return after[len(b)]
}

// hostCovers reports whether every host that pattern b matches is matched by a. A
// `*` is a whole label.
func hostCovers(a, b string) bool {
	return a == b || eachLabel(a, b, func(a, b string) bool { return a == "*" || a == b })
}

// hostsOverlap reports whether some host may match both patterns.
func hostsOverlap(a, b string) bool {
	return strings.Contains(a+b, "{") || eachLabel(a, b, func(a, b string) bool { return a == "*" || b == "*" || a == b })
}

func eachLabel(a, b string, both func(a, b string) bool) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	if len(as) != len(bs) || strings.Contains(a+b, "{") {
		return false
	}
	for i := range as {
		if !both(as[i], bs[i]) {
			return false
		}
	}
	return true
}
