package harness

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// Received is one request exactly as it reached the upstream.
type Received struct {
	Conn    int      // number of the connection, from 1
	Line    string   // the request line
	Headers []string // the header lines, without changes
	Body    string   // without the framing
	Framed  string   // the bytes behind the head, with the framing
}

// Values returns the values of a header. The case of its name does not matter.
func (r *Received) Values(name string) []string {
	var all []string
	for _, line := range r.Headers {
		if n, value, _ := strings.Cut(line, ":"); strings.EqualFold(n, name) {
			all = append(all, strings.TrimSpace(value))
		}
	}
	return all
}

// Value returns the values of a header as one text.
func (r *Received) Value(name string) string { return strings.Join(r.Values(name), " | ") }

// Raw returns the whole request.
func (r *Received) Raw() string {
	return r.Line + "\r\n" + strings.Join(r.Headers, "\r\n") + "\r\n\r\n" + r.Framed
}

func readRequest(in *bufio.Reader) (*Received, error) {
	r := new(Received)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		switch {
		case r.Line == "":
			r.Line = line
		case line != "":
			r.Headers = append(r.Headers, line)
		default:
			return r, r.readBody(in)
		}
	}
}

// readBody trusts Transfer-Encoding first, as a careless server would.
func (r *Received) readBody(in *bufio.Reader) error {
	if strings.Contains(strings.ToLower(r.Value("Transfer-Encoding")), "chunked") {
		return r.readChunks(in)
	}
	first, _, _ := strings.Cut(r.Value("Content-Length"), " | ")
	length, err := strconv.Atoi(first)
	if err != nil || length < 0 {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(in, int64(length))) // which may be announced and never come
	if err == nil && len(body) < length {
		err = io.ErrUnexpectedEOF
	}
	r.Body, r.Framed = string(body), string(body)
	return err
}

func (r *Received) readChunks(in *bufio.Reader) error {
	for last := false; ; {
		line, err := in.ReadString('\n')
		r.Framed += line
		if err != nil || last && strings.TrimSpace(line) == "" {
			return err
		}
		if last {
			continue
		}
		length, _, _ := strings.Cut(line, ";")
		size, err := strconv.ParseUint(strings.TrimSpace(length), 16, 31)
		if err != nil {
			return err
		}
		if last = size == 0; last {
			continue
		}
		chunk, err := io.ReadAll(io.LimitReader(in, int64(size)+2))
		if err != nil {
			return err
		}
		if uint64(len(chunk)) < size+2 {
			return io.ErrUnexpectedEOF
		}
		r.Framed += string(chunk)
		r.Body += string(chunk[:size])
	}
}

// Lines returns the request lines.
func Lines(all []*Received) []string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = r.Line
	}
	return texts
}
