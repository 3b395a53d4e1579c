package cardexplain

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/explain"
	"github.com/card-gateway/card-gateway/keys/keyid"
)

// A report is what is found out about a request.
type report struct {
	cmd     *cobra.Command
	capture *capture // nil: only what the gateway remembers is known
	secret  string   // "": not known
	signed  *string  // what the client has signed, if it is known
	refusal *adminapi.Refusal
	json    bool

	found []auth.FieldError
	right string // the string to sign of the captured request
	wrong string // what was signed in its place; "": not known
	notes []string
}

func (r *report) add(finding, message string) {
	r.found = append(r.found, auth.FieldError{Finding: finding, Message: message})
}

// print writes the report and returns whether a mistake was found.
func (r *report) print() (mistaken bool, err error) {
	if r.capture != nil {
		r.examine()
	} else {
		r.found, r.right = r.refusal.Findings, r.refusal.StringToSign
		if r.signed != nil && r.right != "" {
			r.wrong = cardlog.MaskLines(*r.signed) // as what arrived is
		}
	}
	if r.json {
		return len(r.found) > 0, r.printJSON()
	}
	var b strings.Builder
	r.describe(&b)
	for _, f := range r.found {
		name := f.Finding
		if name == "" {
			name = f.Field
		}
		fmt.Fprintf(&b, "\n%s: %s\n", name, f.Message)
	}
	if len(r.found) > 0 {
		b.WriteString("\nmore about each name: docs/errors.md, where it is a heading\n")
	}
	for _, note := range r.notes {
		fmt.Fprintf(&b, "\nnote: %s\n", note)
	}
	if len(r.found) == 0 {
		b.WriteString("\nno mistake found\n")
		if r.capture != nil {
			b.WriteString("\nnote: only the gateway knows whether the key exists, is disabled, locked or expired, and whether the nonce is new\n")
		}
	}
	_, err = fmt.Fprint(r.cmd.OutOrStdout(), b.String())
	return len(r.found) > 0, err
}

func (r *report) printJSON() error {
	return cli.PrintJSON(r.cmd, struct {
		StringToSign string            `json:"string_to_sign"`
		Signed       string            `json:"signed,omitempty"`
		Findings     []auth.FieldError `json:"findings"`
		Notes        []string          `json:"notes,omitempty"`
		Gateway      *adminapi.Refusal `json:"gateway,omitempty"`
	}{r.right, r.wrong, r.found, r.notes, r.refusal})
}

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

// window is how far X-Timestamp may be from the clock: the published
// interface, Authentication, rule 7.
const window = 5 * time.Minute

// examine finds out what is wrong with the captured request.
func (r *report) examine() {
	c := r.capture
	r.notes = append(r.notes, c.notes...)
	if refusal := auth.CheckMethod(c.method); refusal != nil {
		r.add("method", refusal.Text())
	}
	if _, refusal := auth.ParseTarget(c.target); refusal != nil {
		r.add("target", refusal.Text())
	}
	credentials, missing := auth.ParseCredentials(c.header)
	if missing != nil {
		r.found = append(r.found, missing.Details...)
		for name := range c.header {
			if hyphens := strings.ReplaceAll(name, "_", "-"); hyphens != name && slices.Contains(five, http.CanonicalHeaderKey(hyphens)) {
				r.add("header_name", "The header "+name+" is written with underscores, which proxies drop. Write hyphens: "+hyphens+".")
			}
		}
		return
	}
	r.examineID(credentials.KeyID)
	request := &explain.Case{
		Request: auth.Request{Method: c.method, Target: c.target, Credentials: credentials},
		Host:    c.host, Fragment: c.fragment, Now: c.at, Window: window,
		Body: &explain.Body{Size: int64(len(c.body)), Sum: sha256.Sum256(c.body), Bytes: c.body},
	}
	if request.Now.IsZero() {
		request.Now = time.Now()
	}
	r.judge(request)
	if r.right = request.StringToSign(); request.View().StringToSign == "" {
		r.right = "" // it holds the secret
	}
	for _, f := range explain.Explain(request) {
		r.add(f.Kind.String(), f.Text())
		if f.Kind == explain.TimestampBehind && c.at.IsZero() {
			r.notes = append(r.notes, "the clock is that of this machine: the timestamp is no mistake if the request was captured so long ago")
		}
	}
	if text, known := explain.SignedInstead(request); known && r.right != "" {
		r.wrong = text
	}
	if r.signed != nil && r.right != "" && *r.signed != r.right {
		r.wrong = *r.signed
		r.add("string_to_sign", "the client signed another string than the request has. Sign "+partAt(r.right, differAt(r.right, r.wrong))+" as it is sent.")
	}
	r.compareArrived()
}

var five = []string{auth.HeaderKeyID, auth.HeaderTimestamp, auth.HeaderNonce, auth.HeaderBodyHash, auth.HeaderSignature}

// examineID says what is wrong with the form of an id that the gateway has made.
func (r *report) examineID(id string) {
	bare := strings.ToLower(strings.Trim(id, "\"'`<>"))
	switch {
	case keyid.WellFormed(id) || !strings.HasPrefix(bare, "ck_"): // that of another system has any form
	case keyid.WellFormed(strings.Trim(id, "\"'`<>")):
		r.add("key_id", "X-API-Key is in quotes. Send the id as it was shown.")
	case keyid.WellFormed(bare):
		r.add("key_id", "X-API-Key has upper-case letters. Send the id as it was shown, in lower case.")
	default:
		r.add("key_id", fmt.Sprintf("X-API-Key has %d characters and is no id that a gateway makes: ck_live_ or ck_test_ and 32 of a-z and 2-7. Send the whole id as it was shown.", len(id)))
	}
}

// judge finds out which rules the request fails that it can be judged by.
func (r *report) judge(c *explain.Case) {
	if r.secret == "" {
		r.notes = append(r.notes, "without the secret the signature is not checked: set CARD_SECRET, or name a file with --secret-file")
	} else {
		c.Key = &auth.Key{ID: c.Credentials.KeyID, Secrets: []*auth.Secret{auth.NewSecret(1, r.secret, time.Time{})}}
		c.Failed = auth.Judge(&c.Request, c.Key, c.Window, c.Now).Failed & auth.RuleSignature
	}
	if !auth.InWindow(c.Now, c.Credentials.Unix, c.Window) {
		c.Failed |= auth.RuleTimestamp
	}
	if !auth.BodyHashEqual(c.Credentials.BodyHash, c.Body.Sum) {
		c.Failed |= auth.RuleBodyHash
	}
}

// compareArrived compares the captured request with what the gateway received.
func (r *report) compareArrived() {
	if r.refusal == nil {
		return
	}
	r.found = append(r.found, r.refusal.Findings...)
	sent := cardlog.MaskLines(r.right) // as what arrived is
	if arrived := r.refusal.StringToSign; arrived != "" && r.right != "" && arrived != sent {
		r.add("changed_on_the_way", "the gateway received another "+partAt(sent, differAt(sent, arrived))+
			" than was captured. Look for a proxy or a library that rewrites requests, or a capture of another request.")
		r.right, r.wrong = sent, arrived
	}
	sum := sha256.Sum256(r.capture.body)
	if hash := r.refusal.ReceivedHash; hash != "" && hash != auth.EncodeHash(sum) {
		r.add("body_changed_on_the_way", "the gateway received "+strconv.FormatInt(*r.refusal.ReceivedBytes, 10)+" bytes of body, and "+
			strconv.Itoa(len(r.capture.body))+" others were captured. Look for a proxy or a library that rewrites bodies.")
	}
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
