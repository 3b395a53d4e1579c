package auth

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

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
