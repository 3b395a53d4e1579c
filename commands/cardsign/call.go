package cardsign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/commands/cli"
)

// A signedCall is a request with its body, and the file of the body.
type signedCall struct {
	request  *http.Request
	target   string // path and query, as typed
	body     []byte
	hasBody  bool
	bodyFile string // "" unless the body was read from a file
}

func newSignedCall(cmd *cobra.Command, method, address string) (*signedCall, error) {
	base, target, err := splitURL(address)
	if err != nil {
		return nil, err
	}
	c := &signedCall{target: target, hasBody: cmd.Flags().Changed("data")}
	if c.body, c.bodyFile, err = bodyFlag(cmd, cli.Flag(cmd, "data")); err != nil {
		return nil, err
	}
	c.request, err = http.NewRequest(method, base.String(), nil)
	if err != nil {
		return nil, err
	}
	// net/http writes Opaque on the request line without changes.
	c.request.URL.Opaque = target
	if c.hasBody {
		c.request.Body = io.NopCloser(bytes.NewReader(c.body))
		c.request.ContentLength = int64(len(c.body))
		if len(c.body) == 0 {
			c.request.Body = http.NoBody
		} else {
			c.request.Header.Set("Content-Type", "application/json")
		}
	}
	c.request.Header.Set("User-Agent", "card-sign")
	headers, _ := cmd.Flags().GetStringArray("header")
	return c, c.setHeaders(headers)
}

func (c *signedCall) setHeaders(lines []string) error {
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || name == "" {
			return fmt.Errorf("header %q: want 'Name: value'", line)
		}
		switch name {
		case auth.HeaderKeyID, auth.HeaderTimestamp, auth.HeaderNonce, auth.HeaderBodyHash, auth.HeaderSignature:
			return fmt.Errorf("header %s is made by signing", name)
		case "Content-Length", "Transfer-Encoding":
			return fmt.Errorf("header %s is made from the body", name)
		case "Host":
			c.request.Host = value
		case "Content-Type", "User-Agent":
			c.request.Header.Set(name, value)
		default:
			c.request.Header.Add(name, value)
		}
	}
	return nil
}

// stringToSign returns what was signed, in one line.
func (c *signedCall) stringToSign() string {
	h := c.request.Header
	text := auth.AppendStringToSign(nil, c.request.Method, c.target,
		h.Get(auth.HeaderTimestamp), h.Get(auth.HeaderNonce), h.Get(auth.HeaderBodyHash))
	return strings.ReplaceAll(string(text), "\n", `\n`)
}

// splitURL splits a URL into scheme and host, and the path and query as typed.
func splitURL(address string) (*url.URL, string, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, "", fmt.Errorf("%q cannot be signed: want http://HOST/PATH or https://HOST/PATH", address)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	base, err := url.Parse(scheme + "://" + rest[:end])
	if err != nil || base.Host == "" || base.User != nil {
		return nil, "", fmt.Errorf("%q cannot be signed: want http://HOST/PATH or https://HOST/PATH, without a user name", address)
	}
	target := rest[end:]
	switch {
	case strings.Contains(target, "#"):
		return nil, "", errors.New("a # and what follows it are never sent: write %23 if it belongs to the path or query")
	case !strings.HasPrefix(target, "/"):
		target = "/" + target
	}
	return base, target, nil
}

// bodyFlag reads the body that --data names.
func bodyFlag(cmd *cobra.Command, data string) (body []byte, file string, err error) {
	path, isFile := strings.CutPrefix(data, "@")
	switch {
	case !isFile:
		return []byte(data), "", nil
	case path == "-":
		body, err = io.ReadAll(cmd.InOrStdin())
		path = ""
	default:
		body, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the body: %w", err)
	}
	return body, path, nil
}

// curl returns a command that sends the signed request when it is pasted into
// a POSIX shell. With --path-as-is and --globoff curl does not change what was
// signed.
func (c *signedCall) curl() (string, error) {
	words := []string{"curl", "--path-as-is", "--globoff"}
	switch {
	case c.request.Method != http.MethodHead:
		words = append(words, "-X", c.request.Method)
	case c.hasBody:
		return "", errors.New("curl sends no body with HEAD: leave --curl out")
	default:
		words = append(words, "--head")
	}
	for _, name := range slices.Sorted(maps.Keys(c.request.Header)) {
		for _, value := range c.request.Header[name] {
			line := name + ": " + value
			if value == "" {
				line = name + ";" // how curl writes an empty header
			}
			words = append(words, "-H", line)
		}
	}
	if c.request.Host != "" && c.request.Host != c.request.URL.Host {
		words = append(words, "-H", "Host: "+c.request.Host)
	}
	body, err := c.curlBody()
	if err != nil {
		return "", err
	}
	words = append(words, body...)
	words = append(words, c.request.URL.Scheme+"://"+c.request.URL.Host+c.target)
	for i := range words {
		words[i] = shellQuote(words[i])
	}
	return strings.Join(words, " "), nil
}

// curlBody returns the words that make curl send the same bytes.
func (c *signedCall) curlBody() ([]string, error) {
	switch {
	case !c.hasBody:
		return nil, nil
	case c.bodyFile != "":
		path, err := filepath.Abs(c.bodyFile)
		if err != nil {
			return nil, err
		}
		return []string{"--data-binary", "@" + path}, nil
	case !utf8.Valid(c.body) || slices.Contains(c.body, 0):
		return nil, errors.New("the body is not text that a command line can hold: put it into a file and use -d @FILE")
	default:
		return []string{"--data-raw", string(c.body)}, nil
	}
}

// shellQuote writes a word so that a POSIX shell reads it back unchanged.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
