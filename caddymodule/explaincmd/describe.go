package explaincmd

import (
	"fmt"
	"strings"
	"time"

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
