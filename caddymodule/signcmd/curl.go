package signcmd

import (
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

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
	var names []string
	for name := range c.request.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
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
