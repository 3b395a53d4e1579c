package explaincmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/card-gateway/card-gateway/auth"
)

// describe writes what was sent, what arrived and both strings to sign.
func (r *report) describe(b *strings.Builder) {
	if c := r.capture; c != nil {
		fmt.Fprintf(b, "captured         %s %s, body of %d bytes\n", c.method, shorten(c.target), len(c.body))
		if unix, ok := auth.ParseTimestamp(c.header.Get("X-Timestamp")); ok {
			fmt.Fprintf(b, "signed at        %s\n", time.Unix(unix, 0).UTC().Format(time.RFC3339))
		}
	}
	if g := r.refusal; g != nil {
		fmt.Fprintf(b, "gateway          %s: %d %s (%s)\n", g.At.Format(time.RFC3339), g.Status, g.Message, g.Reason)
		for _, row := range [][2]string{{"operation", g.Operation}, {"key", g.KeyID}, {"client", g.Client}, {"detail", g.Detail}} {
			if row[1] != "" {
				fmt.Fprintf(b, "  %-15s%s\n", row[0], row[1])
			}
		}
		if g.ReceivedBytes != nil {
			fmt.Fprintf(b, "  %-15s%d bytes, hash %s\n", "body", *g.ReceivedBytes, g.ReceivedHash)
		}
	}
	if r.right == "" {
		return
	}
	if r.wrong == "" {
		fmt.Fprintf(b, "string to sign   %s\n", quote(r.right))
		return
	}
	at := differAt(r.right, r.wrong)
	right, _ := around(r.right, at)
	wrong, column := around(r.wrong, at)
	other := "was signed"
	if r.refusal != nil && r.wrong == r.refusal.StringToSign {
		other = "arrived"
	}
	fmt.Fprintf(b, "string to sign   %s\n%-17s%s\n%s^ byte %d, in the %s\n", right, other, wrong, strings.Repeat(" ", 17+column), at+1, partAt(r.right, at))
}

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
