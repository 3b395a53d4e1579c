package cardexplain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"pgregory.net/rapid"
)

// read returns the request that is in a text.
func read(t *testing.T, text string) *capture {
	t.Helper()
	c, err := readCapture(entryCommand(), []byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return c
}

func entryCommand() *cobra.Command {
	cmd := new(cobra.Command)
	explainCommand(cmd)
	return cmd
}

const wantBody = "{\"name\":\"it's Zo\u00eb\"}"

// forms is one request in the forms that people have.
var forms = map[string]string{
	"raw":                 "PUT /api/v1/x?b=2&a=%2f HTTP/1.1\r\nHost: gw.example\r\nx-signature: c2ln\r\nContent-Length: 20\r\n\r\n" + wantBody + "\n",
	"raw, with LF":        "PUT /api/v1/x?b=2&a=%2f HTTP/1.1\nHost: gw.example\nX-Signature: c2ln\n\n" + wantBody,
	"raw, in chunks":      "PUT /api/v1/x?b=2&a=%2f HTTP/1.1\r\nHost: gw.example\r\nX-Signature:c2ln\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + wantBody + "\r\n0\r\n\r\n",
	"curl":                `curl --path-as-is -X PUT 'https://gw.example/api/v1/x?b=2&a=%2f' -H 'X-Signature: c2ln' --data-raw '{"name":"it'\''s Zoë"}'`,
	"curl, double quotes": "$ curl \"https://gw.example/api/v1/x?b=2&a=%2f\" \\\n  -XPUT -sS -H \"X-Signature: c2ln\" --data \"{\\\"name\\\":\\\"it's Zoë\\\"}\" | jq",
	"curl of a browser":   `curl 'https://gw.example/api/v1/x?b=2&a=%2f' -X 'PUT' -H 'x-signature: c2ln' --data-binary $'{"name":"it\'s Zo\u00eb"}' --compressed`,
	"curl, JSON":          `curl --request PUT --url https://gw.example/api/v1/x?b=2\&a=%2f -H "X-Signature: c2ln" --json '{"name":"it'"'"'s Zoë"}'`,
	"curl of cmd":         "C:\\Users\\curl>curl.exe \"https://gw.example/api/v1/x?b=2&a=%2f\" ^\r\n  -X PUT -H \"X-Signature: c2ln\" ^\r\n  --data-raw \"{\\\"name\\\":\\\"it's Zoë\\\"}\" | more\r\n",
	"cmd of a browser":    "curl ^\"https://gw.example/api/v1/x?b=2^&a=^%^2f^\" ^\n  -X ^\"PUT^\" ^\n  -H ^\"x-signature: c2ln^\" ^\n  --data-raw ^\"^{^\\^\"name^\\^\":^\\^\"it's Zoë^\\^\"^}^\"",
	"HAR":                 `{"log":{"entries":[{"request":{"method":"GET","url":"https://other/","headers":[]}},{"startedDateTime":"2026-01-02T03:04:05.000Z","request":{"method":"PUT","url":"https://gw.example/api/v1/x?b=2&a=%2f#top","headers":[{"name":":authority","value":"x"},{"name":"X-Signature","value":"c2ln"}],"postData":{"mimeType":"application/json","text":"{\"name\":\"it's Zoë\"}"}}},{"request":{"method":"GET","url":"https://other/","headers":[]}}]}}`,
	"one HAR entry":       `{"request":{"method":"PUT","url":"https://gw.example/api/v1/x?b=2&a=%2f","headers":[{"name":"X-Signature","value":"c2ln"}],"postData":{"text":"eyJuYW1lIjoiaXQncyBab8OrIn0=","encoding":"base64"}}}`,
}

func TestRequestsAreReadInEachForm(t *testing.T) {
	t.Parallel()
	for name, text := range forms {
		c := read(t, text)
		if c.method != "PUT" || c.target != "/api/v1/x?b=2&a=%2f" || c.host != "gw.example" || string(c.body) != wantBody || c.header.Get("X-Signature") != "c2ln" {
			t.Errorf("%s: %s %s of %s with %q and %v", name, c.method, c.target, c.host, c.body, c.header)
		}
	}
}

// What curl sends where it does not send what is written.
func TestCurlIsReadAsItSends(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(file, []byte("[1,\n2]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"curl h/p":               "GET /p ",
		"curl http://h":          "GET / ",
		"curl http://u:p@h?q=1":  "GET /?q=1 ",
		"curl -I h/p":            "HEAD /p ",
		"curl h/p -d a=1 -d b=2": "POST /p a=1&b=2",
		"curl -G h/p -d a=1 --data-urlencode 'b=x y'":  "GET /p?a=1&b=x%20y ",
		"curl h/p -d @" + file:                         "POST /p [1,2]",
		"curl h/p --data-binary @" + file:              "POST /p [1,\n2]\n",
		"curl -T " + file + " h/p":                     "PUT /p [1,\n2]\n",
		"curl h/p --data-raw @x":                       "POST /p @x",
		"curl h/a/../b/./c?q=/../":                     "GET /b/c?q=/../ ",
		"curl --path-as-is h/a/../b":                   "GET /a/../b ",
		"curl h/p -d ''":                               "POST /p ",
		"curl h/p?a=1^&b=2^^":                          "GET /p?a=1&b=2^ ",
		"curl h/p -d a^b":                              "POST /p ab",
		"curl h/p -d ^\"a^\n\nb^\" -d \"\" & curl o/q": "POST /p a\nb&",
		`curl h/p ^ -d "a ""^""\\" -d \"\\\"x\y`:       `POST /p a "^"\&"\"x\y`,
	} {
		c := read(t, line)
		if got := c.method + " " + c.target + " " + string(c.body); got != want {
			t.Errorf("%s sends %q, want %q", line, got, want)
		}
	}
	if c := read(t, "curl -H 'X-A: 1' -H 'X-B;' -H 'X-C:' -H 'Host: other' h/p"); len(c.header) != 3 || c.host != "other" || c.header["X-B"][0] != "" {
		t.Errorf("the headers are %v of %s", c.header, c.host)
	}
}

func TestUnreadableInputIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "the input is empty",
		"hello":                        "this is no request",
		"GET /\r\nHost: x":             "this is no request",
		"GET / HTTP/1.1\nbroken line":  "is no header line",
		"{\"log\":":                    "looks like a HAR file",
		`{"log":{"entries":[]}}`:       "none of the 0 entries",
		"curl":                         "this is no request",
		"curl -H":                      "lacks its argument",
		"curl -H 'open":                "never closed",
		"curl -H ^\"open":              "never closed",
		"curl -s":                      "has no URL",
		"curl h/p -F file=@x":          "makes up the bytes",
		"curl h/p -d @-":               "standard input",
		"curl h/p -d @/does/not/exist": "no such file",
		"GET / HTTP/1.1\nContent-Length: x\n\nab": "is no number",
	} {
		if c, err := readCapture(entryCommand(), []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", text, c, err, want)
		}
	}
}

// A word that is quoted for a shell is read back, whatever it is.
func TestShellWordsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringN(0, 20, 40), 1, 5).Draw(t, "words")
		var line []string
		for _, w := range words {
			single := "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
			double := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(w) + `"`
			line = append(line, rapid.SampledFrom([]string{single, double}).Draw(t, "quotes"))
		}
		got, err := shellWords(strings.Join(line, " \\\n "))
		if err != nil || strings.Join(got, "\x00") != strings.Join(words, "\x00") || len(got) != len(words) {
			t.Errorf("%q is read %q, %v", line, got, err)
		}
	})
}

// Nothing that is pasted makes the reader panic.
func FuzzReadCapture(f *testing.F) {
	for _, text := range forms {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "@") {
			return // it would read files
		}
		c, err := readCapture(entryCommand(), []byte(text))
		if err == nil && (c.target == "" || c.header == nil) {
			t.Errorf("%q is read as %+v", text, c)
		}
	})
}

// The mark is under the first byte that differs, and names its part.
func TestDifferenceIsMarked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string {
			return strings.Join(rapid.SliceOfN(rapid.StringMatching(`[a-zé"]{0,60}`), 5, 5).Draw(t, name), "\n")
		}
		a, b := text("a"), text("b")
		at := differAt(a, b)
		if a[:at] != b[:at] || at < len(a) && at < len(b) && a[at] == b[at] {
			t.Fatalf("%q and %q differ at %d", a, b, at)
		}
		right, columnA := around(a, at)
		wrong, columnB := around(b, at)
		if columnA != columnB || strings.ContainsAny(right+wrong, "\n\x00") {
			t.Errorf("byte %d is shown in column %d as\n%s\n%s", at, columnA, right, wrong)
		}
	})
	for at, want := range map[int]string{0: "method", 4: "path", 6: "timestamp", 99: "body hash"} {
		if got := partAt("GET\n/\n1\nn\nh", at); got != want {
			t.Errorf("byte %d is in the %s, want %s", at, got, want)
		}
	}
}
