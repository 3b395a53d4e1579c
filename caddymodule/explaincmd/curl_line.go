package explaincmd

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
)

// A curlLine is what the words of a curl command say of the request.
type curlLine struct {
	method   string
	address  string
	headers  []string
	data     [][]byte
	inQuery  bool // -G: the data belongs to the query
	head     bool
	upload   bool
	asTyped  bool // --path-as-is
	json     bool
	unsigned string // an option whose bytes cannot be told
	notes    []string
}

func (l *curlLine) capture() (*capture, error) {
	if l.unsigned != "" {
		return nil, fmt.Errorf("curl makes up the bytes of a body of %s when it sends it: capture the request as it is sent (curl --trace-ascii - shows it)", l.unsigned)
	}
	if l.address == "" {
		return nil, errors.New("the command has no URL")
	}
	c := &capture{method: l.method, header: make(http.Header), notes: l.notes}
	var err error
	if c.host, c.target, err = splitAddress(l.address); err != nil {
		return nil, err
	}
	if !l.asTyped {
		c.squash()
	}
	c.setHeaders(l.headers)
	data := string(l.joined())
	if l.inQuery && data != "" {
		separator := "?"
		if strings.Contains(c.target, "?") {
			separator = "&"
		}
		c.target, data = c.target+separator+data, ""
	}
	c.body = []byte(data)
	if c.method == "" {
		c.method = l.defaultMethod()
	}
	return c, nil
}

func (l *curlLine) joined() []byte {
	var all []byte
	for i, part := range l.data {
		if i > 0 && !l.json {
			all = append(all, '&')
		}
		all = append(all, part...)
	}
	return all
}

func (l *curlLine) defaultMethod() string {
	switch {
	case l.head:
		return http.MethodHead
	case l.upload:
		return http.MethodPut
	case len(l.data) > 0 && !l.inQuery:
		return http.MethodPost
	default:
		return http.MethodGet
	}
}

func (c *capture) setHeaders(lines []string) {
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if empty, isEmpty := strings.CutSuffix(line, ";"); !ok && isEmpty {
			name, value, ok = empty, "", true
		} else if ok && strings.TrimSpace(value) == "" {
			continue // curl leaves such a header out
		}
		if ok {
			c.header.Add(strings.TrimSpace(name), strings.Trim(value, " \t"))
		}
	}
	if host := c.header.Get("Host"); host != "" {
		c.host = host
	}
}

// squash resolves the dot segments of the path, as curl does.
func (c *capture) squash() {
	raw, query, hasQuery := strings.Cut(c.target, "?")
	if !strings.Contains(raw, "/.") {
		return
	}
	clean := path.Clean(raw)
	if strings.HasSuffix(raw, "/") && clean != "/" {
		clean += "/"
	}
	if clean == raw {
		return
	}
	c.notes = append(c.notes, "curl resolves the dots of the path unless --path-as-is is given: it sends "+clean)
	if c.target = clean; hasQuery {
		c.target += "?" + query
	}
}
