package cardexplain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/commands/cli"
)

// A capture is a request as a client sent it.
type capture struct {
	method, target string
	host           string
	fragment       string // what follows # in the URL
	header         http.Header
	body           []byte
	at             time.Time // when it was sent; zero: not known
	notes          []string  // what may not be as it was sent
}

var errNoRequest = errors.New("this is no request: want raw HTTP (METHOD PATH HTTP/1.1 and headers), a curl command, or a HAR file")

// address parts a URL into host, path with query, which stay as they are written, and
// fragment.
func (c *capture) address(text string) error {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		rest = text
	}
	rest, c.fragment, _ = strings.Cut(rest, "#")
	if rest == "" || text[0] == '/' {
		return fmt.Errorf("%.80q is no URL with a host", text)
	}
	at := strings.IndexAny(rest, "/?")
	if at < 0 {
		c.host, c.target = rest, "/"
		return nil
	}
	if c.host, c.target = rest[:at], rest[at:]; c.target[0] == '?' {
		c.target = "/" + c.target
	}
	c.host = c.host[strings.LastIndexByte(c.host, '@')+1:]
	return nil
}

// readCapture reads a request in any of the forms that people have.
func readCapture(cmd *cobra.Command, text []byte) (*capture, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	trimmed := prompt.ReplaceAllString(strings.TrimLeft(string(text), " \t\r\n"), "")
	switch {
	case trimmed == "":
		return nil, errors.New("the input is empty; " + errNoRequest.Error())
	case trimmed[0] == '{':
		entry, _ := cmd.Flags().GetInt("entry")
		return readHAR([]byte(trimmed), entry)
	case isCurl.MatchString(trimmed):
		return readCurl(trimmed, cli.IsSet(cmd, "no-files"))
	case verboseLine.Match(text):
		return readRaw(verboseRequest(text))
	default:
		return readRaw(text)
	}
}

var (
	prompt      = regexp.MustCompile(`^(?:[$#%>] +|[A-Za-z]:\\[^\n>]*>)`)
	isCurl      = regexp.MustCompile(`^curl(?:\.exe)?\s`)
	verboseLine = regexp.MustCompile(`(?m)^> [A-Za-z]+ \S+ HTTP/`)
)

// verboseRequest returns the request in the output of curl -v. Its body is not
// there.
func verboseRequest(text []byte) []byte {
	var request []byte
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(">")); ok {
			request = append(request, bytes.TrimPrefix(rest, []byte(" "))...)
		}
	}
	return request
}

// readRaw reads a request as it goes over the wire. Its lines may end in LF, as
// an editor writes them. Nothing of the target is changed.
func readRaw(text []byte) (*capture, error) {
	head, body, _ := bytes.Cut(text, []byte("\r\n\r\n"))
	if at := bytes.Index(text, []byte("\n\n")); at >= 0 && at < len(head) {
		head, body = text[:at], text[at+2:]
	}
	lines := strings.Split(strings.ReplaceAll(strings.TrimLeft(string(head), "\r\n"), "\r\n", "\n"), "\n")
	method, rest, ok := strings.Cut(strings.TrimSpace(lines[0]), " ")
	end := strings.LastIndex(rest, " HTTP/")
	if !ok || end <= 0 || method == "" {
		return nil, errNoRequest
	}
	c := &capture{method: method, target: rest[:end], header: make(http.Header), body: body}
	for _, line := range lines[1:] {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("%.60q is no header line", line)
		}
		c.header.Add(name, strings.Trim(value, " \t"))
	}
	c.host = c.header.Get("Host")
	return c, c.frame()
}

// frame cuts the body to what the headers say of it.
func (c *capture) frame() error {
	if strings.EqualFold(c.header.Get("Transfer-Encoding"), "chunked") {
		body, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(c.body)))
		if err != nil {
			return fmt.Errorf("the body is not in chunks, which Transfer-Encoding announces: %w", err)
		}
		c.body = body
		return nil
	}
	length, err := strconv.Atoi(c.header.Get("Content-Length"))
	switch {
	case c.header.Get("Content-Length") == "" && len(bytes.TrimSpace(c.body)) == 0:
		c.body = nil // what an editor has added
	case c.header.Get("Content-Length") == "":
		c.notes = append(c.notes, "there is no Content-Length: the body is taken to be everything after the headers, a line feed at its end included")
	case err != nil || length < 0:
		return fmt.Errorf("the Content-Length %.20q is no number", c.header.Get("Content-Length"))
	case length > len(c.body):
		c.notes = append(c.notes, fmt.Sprintf("Content-Length is %d, and %d bytes of the body are here", length, len(c.body)))
	default:
		c.body = c.body[:length]
	}
	return nil
}

// A harEntry is what is used of an entry of a HAR file.
type harEntry struct {
	Started time.Time  `json:"startedDateTime"`
	Request harRequest `json:"request"`
}

type harRequest struct {
	Method  string `json:"method"`
	URL     string `json:"url"`
	Headers []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"headers"`
	PostData *struct {
		Text     string `json:"text"`
		Encoding string `json:"encoding"`
	} `json:"postData"`
}

// readHAR reads an entry of a HAR file, or one entry or request alone. The
// number counts from 1; 0 is the last entry that is signed.
func readHAR(text []byte, number int) (*capture, error) {
	var file struct {
		Log struct {
			Entries []harEntry `json:"entries"`
		} `json:"log"`
		harEntry
		harRequest
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("the input looks like a HAR file and is none: %w", err)
	}
	entries := file.Log.Entries
	switch {
	case len(entries) > 0:
	case file.harEntry.Request.URL != "":
		entries = []harEntry{file.harEntry}
	case file.harRequest.URL != "":
		entries = []harEntry{{Request: file.harRequest}}
	}
	if number > len(entries) || number < 0 {
		return nil, fmt.Errorf("there is no entry %d: the HAR file has %d", number, len(entries))
	}
	if number > 0 {
		return entries[number-1].capture()
	}
	for _, entry := range slices.Backward(entries) {
		c, err := entry.capture()
		if err == nil && (c.header.Get("X-Signature") != "" || c.header.Get("X-API-Key") != "" || len(entries) == 1) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("none of the %d entries of the HAR file has an X-Signature; name one with --entry", len(entries))
}

func (e *harEntry) capture() (*capture, error) {
	c := &capture{method: e.Request.Method, header: make(http.Header), at: e.Started}
	if err := c.address(e.Request.URL); err != nil {
		return nil, err
	}
	for _, h := range e.Request.Headers {
		if !strings.HasPrefix(h.Name, ":") { // of HTTP/2
			c.header.Add(h.Name, h.Value)
		}
	}
	if data := e.Request.PostData; data != nil {
		c.body = []byte(data.Text)
		if data.Encoding == "base64" {
			var err error
			if c.body, err = base64.StdEncoding.DecodeString(data.Text); err != nil {
				return nil, fmt.Errorf("reading the body of the HAR entry: %w", err)
			}
		}
	}
	return c, nil
}
