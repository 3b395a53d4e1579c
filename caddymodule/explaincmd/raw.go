package explaincmd

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
)

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
