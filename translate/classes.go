package translate

import (
	"unicode"
	"unicode/utf8"
)

// A class is a set of ASCII characters.
type class [128]bool

const (
	digits   = "0123456789"
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters  = "abcdefghijklmnopqrstuvwxyz"
)

var (
	separator = chars("-_.")
	digit     = chars(digits)
	upper     = chars(capitals)
	timeStart = chars("Tt ")                                               // between a day and a time
	spacer    = chars(" -.()/")                                            // between digits of a phone number
	hostText  = chars(capitals + letters + digits + "-")                   // RFC 1123, 2.1
	atomText  = chars(capitals + letters + digits + "!#$%&'*+-/=?^_`{|}~") // atext of RFC 5322, 3.2.3
)

func chars(members string) *class {
	var c class
	for i := range len(members) {
		c[members[i]] = true
	}
	return &c
}

// has reports whether the class holds the character.
func (c *class) has(b byte) bool { return b < 128 && c[b] }

// all reports whether every character of s is in one of the classes.
func all(s []byte, classes ...*class) bool { return span(s, classes...) == len(s) }

// span returns the number of characters at the start of s that are in one of
// the classes.
func span(s []byte, classes ...*class) int {
	for i, b := range s {
		if !inAny(b, classes) {
			return i
		}
	}
	return len(s)
}

func inAny(b byte, classes []*class) bool {
	for _, c := range classes {
		if c.has(b) {
			return true
		}
	}
	return false
}

// blank holds the one character that Unicode counts as a symbol although
// nothing is drawn for it: the empty Braille pattern.
var blank = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x2800, Hi: 0x2800, Stride: 1}}}

// invisible reports whether a reader cannot see the character, or cannot tell
// it from a space: spaces, controls, format characters such as U+200B and
// U+202E, fillers, variation selectors, and code points without a character.
func invisible(r rune) bool {
	if r < utf8.RuneSelf {
		return r <= ' ' || r == 0x7f
	}
	return !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, blank)
}

// separates reports whether the character separates words: dashes, connectors
// such as the underscore, dots, and invisible characters.
func separates(r rune) bool {
	if r < utf8.RuneSelf {
		return separator.has(byte(r)) || invisible(r)
	}
	return unicode.In(r, unicode.Pd, unicode.Pc) || invisible(r)
}

// folded returns the lower-case ASCII letter that equals the character for a
// reader that ignores case. If there is none, it returns the character itself.
// It covers simple folding (Go, .NET) and the simple mappings to upper and lower
// case (.NET, Jackson).
func folded(r rune) rune {
	for _, same := range []rune{r, unicode.SimpleFold(r), unicode.ToLower(r), unicode.ToUpper(r)} {
		if same < utf8.RuneSelf {
			return unicode.ToLower(same)
		}
	}
	return r
}
