package explaincmd

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// differAt returns the index of the first byte in which two texts differ.
func differAt(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// partAt returns the name of the part of a string to sign that the index is in.
func partAt(text string, at int) string {
	names := [...]string{"method", "path", "timestamp", "nonce", "body hash"}
	part := strings.Count(text[:min(at, len(text))], "\n")
	return names[min(part, len(names)-1)]
}

// shownAround is how many bytes before and behind a difference are shown.
const shownAround = 70

// around returns the part of a text around an index, with its line feeds as
// \n, and the column in which the index is.
func around(text string, at int) (shown string, column int) {
	from, to := max(0, at-shownAround), min(len(text), at+shownAround)
	before, behind := "", ""
	if from > 0 {
		before = "…"
	}
	if to < len(text) {
		behind = "…"
	}
	lead := before + quote(text[from:min(at, len(text))])
	return lead + quote(text[min(at, len(text)):to]) + behind, utf8.RuneCountInString(lead)
}

// quote writes a text so that every byte of it is seen, and nothing of it can
// steer a terminal.
func quote(text string) string {
	quoted := strconv.QuoteToASCII(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func shorten(text string) string {
	const most = 120
	if len(text) > most {
		return quote(text[:most]) + "…"
	}
	return quote(text)
}
