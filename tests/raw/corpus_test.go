// Package raw sends the gateway requests that other servers got wrong, byte for
// byte, and checks the answer and what reached the issuer.
package raw

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A rawCase is one line of a file of testdata; README.md there has the format.
type rawCase struct {
	line   int
	expect string // what must happen
	signed signed // the request that the client has signed
	then   signed // the request behind {next}
	name   string
	wire   string // what it sends
}

// signed is a request that was signed. The issuer may receive it and nothing else.
type signed struct{ method, target, body string }

// readCases reads a file of testdata.
func readCases(t *testing.T, file string) []rawCase {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all []rawCase
	names := make(map[string]bool)
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(repeated(t, line), "\t")
		if len(cells) != 4 {
			t.Fatalf("%s:%d: %d cells, want 4", file, number, len(cells))
		}
		words := strings.SplitN(cells[1], " ", 3)
		c := rawCase{line: number, expect: cells[0], then: next, name: cells[2], wire: cells[3]}
		c.signed = signed{method: words[0], target: unescape(t, words[1])}
		if len(words) == 3 {
			c.signed.body = unescape(t, words[2])
		}
		if names[c.name] {
			t.Fatalf("%s:%d: a second case is named %q", file, number, c.name)
		}
		names[c.name] = true
		all = append(all, c)
	}
	return all
}

// repeated writes out {n*12*text}: the text 12 times.
func repeated(t testing.TB, text string) string {
	t.Helper()
	for {
		before, rest, found := strings.Cut(text, "{n*")
		if !found {
			return text
		}
		inside, behind, _ := strings.Cut(rest, "}")
		count, what, _ := strings.Cut(inside, "*")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("%.80q: %v", text, err)
		}
		text = before + strings.Repeat(what, n) + behind
	}
}

// unescape reads the escapes of a Go string.
func unescape(t *testing.T, text string) string {
	t.Helper()
	out, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		t.Fatalf("%.80q: %v", text, err)
	}
	return out
}

// read is unescape for a text that has been read before.
func read(text string) string {
	out, _ := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	return out
}

// among reports whether outcomes are the expected ones. Where the server takes one
// of two ways by chance, a | is between them.
func among(got []string, expect string) bool {
	words := strings.Fields(expect)
	return slices.EqualFunc(got, words, func(one, of string) bool { return slices.Contains(strings.Split(of, "|"), one) })
}

// next is the second request of a case: signed on its own.
var next = signed{"GET", "/api/v1/cards/c1", ""}

// lines returns the lines that authenticate a request, each time with another nonce.
func (s *signed) lines(key harness.Credentials) string {
	return strings.Join(harness.Sent(key.Request(s.method, s.target, s.body)).Headers, "\r\n") + "\r\n"
}

// bytes returns what is sent in a case, with the signatures of a key.
func (c *rawCase) bytes(t *testing.T, key harness.Credentials) string {
	t.Helper()
	return c.fill(unescape(t, c.wire), key)
}

// fill puts the signatures of a key into a text.
func (c *rawCase) fill(wire string, key harness.Credentials) string {
	const host = " HTTP/1.1\r\nHost: gw.example\r\n"
	for strings.Contains(wire, "{next}") {
		wire = strings.Replace(wire, "{next}", c.then.method+" "+c.then.target+host+c.then.lines(key)+"\r\n", 1)
	}
	wire = strings.ReplaceAll(wire, "{head}", c.signed.method+" "+c.signed.target+host+"{auth}")
	auth := c.signed.lines(key)
	for line := range strings.Lines(auth) {
		name, _, _ := strings.Cut(line, ":")
		wire = strings.ReplaceAll(wire, "{without "+name+"}", strings.Replace(auth, line, "", 1))
		wire = strings.ReplaceAll(wire, "{only "+name+"}", line)
	}
	return strings.ReplaceAll(wire, "{auth}", auth)
}

// wantOnlySigned checks that the issuer received as many requests as were
// accepted, each as it was signed, with one correct length and no trace of what
// the client wrote about the way.
func wantOnlySigned(t *testing.T, got []*harness.Received, accepted int, may ...signed) {
	t.Helper()
	if len(got) != accepted {
		t.Errorf("%d answers are 200, and the issuer received %q", accepted, harness.Lines(got))
	}
	for _, r := range got {
		is := func(s signed) bool {
			return r.Line == s.method+" "+s.target+" HTTP/1.1" && r.Framed == s.body
		}
		if !slices.ContainsFunc(may, is) {
			t.Errorf("the issuer received what nobody signed:\n%.1000s", r.Raw())
		}
		lengths := r.Values("Content-Length")
		if r.Body != "" && !slices.Equal(lengths, []string{strconv.Itoa(len(r.Body))}) {
			t.Errorf("the issuer received Content-Length %q with %d bytes", lengths, len(r.Body))
		}
		if tenants := r.Values("X-Gateway-Tenant"); !slices.Equal(tenants, []string{"acme"}) {
			t.Errorf("the issuer received the tenants %q", tenants)
		}
		for _, name := range []string{
			"Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te", "Expect", "Keep-Alive", "Proxy-Connection", "Http2-Settings",
			"X-Http-Method-Override", "X-Api-Key", "X-Nonce", "X-Signature", "X-Timestamp", "X-Body-Hash", "X-Original-Url", "X-Rewrite-Url",
		} {
			for _, spelling := range []string{name, strings.ReplaceAll(name, "-", "_")} {
				if values := r.Values(spelling); len(values) > 0 {
					t.Errorf("the issuer received %s: %q", spelling, values)
				}
			}
		}
		if strings.Contains(strings.ToLower(r.Raw()), "evil") {
			t.Errorf("the issuer received\n%.1000s", r.Raw())
		}
	}
}
