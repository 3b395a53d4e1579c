package forward

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// A Field is one header line.
type Field struct{ Name, Value string }

// A Request is a request to an issuer. The package only reads it, and only until
// [Forwarder.Do] returns.
type Request struct {
	Method string
	Target string // the request target, sent byte for byte
	Host   string // the Host header; empty: the issuer's own
	// Fields are sent without changes, in this order. The headers of one
	// connection or of the framing are left out: Host, Content-Length,
	// Connection, Keep-Alive, Proxy-Connection, TE, Trailer,
	// Transfer-Encoding, Upgrade and Expect.
	Fields []Field

	// Body is the whole body. It is sent in one write with the head.
	Body []byte
	// Stream is a body that is not in memory, instead of Body. Exactly Length
	// bytes of it are read and sent.
	Stream io.Reader
	Length int64
	// StopStream makes a pending read of Stream return. It may be nil. It is
	// called at most once, from another goroutine, when the issuer answers or
	// closes before the body has been read, or the context ends. It has
	// returned when Do returns.
	StopStream func()
}

// length returns the number of bytes of the body.
func (r *Request) length() int64 {
	if r.Stream != nil {
		return r.Length
	}
	return int64(len(r.Body))
}

// fault returns why the request cannot be written as HTTP/1.1, or "".
func (r *Request) fault() string {
	switch {
	case !isToken(r.Method):
		return "the method is not a token"
	case !isVisible(r.Target):
		return "the target is empty or holds a byte that a request line cannot"
	case r.Host != "" && !isVisible(r.Host):
		return "the host holds a byte that a header cannot"
	case r.Stream != nil && (r.Length < 0 || r.Body != nil):
		return "a stream needs a length and excludes a body"
	case r.Method == http.MethodConnect:
		return "CONNECT is not forwarded"
	}
	for i := range r.Fields {
		if !isToken(r.Fields[i].Name) || !isFieldValue(r.Fields[i].Value) {
			return "a header line holds a byte that it cannot"
		}
	}
	return ""
}

// appendHead appends the head of the request. host is used if the request has no
// Host.
func (r *Request) appendHead(b []byte, host string) []byte {
	if r.Host != "" {
		host = r.Host
	}
	b = append(append(b, r.Method...), ' ')
	b = append(append(b, r.Target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, host...), "\r\n"...)
	for i := range r.Fields {
		field := &r.Fields[i]
		if ownField(field.Name) {
			continue
		}
		b = append(append(b, field.Name...), ": "...)
		b = append(append(b, field.Value...), "\r\n"...)
	}
	if n := r.length(); n > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, n, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// ownField reports whether this package writes the header itself, or the header
// belongs to one connection.
func ownField(name string) bool {
	switch len(name) {
	case 2:
		return strings.EqualFold(name, "TE")
	case 4:
		return strings.EqualFold(name, "Host")
	case 6:
		return strings.EqualFold(name, "Expect")
	case 7:
		return strings.EqualFold(name, "Trailer") || strings.EqualFold(name, "Upgrade")
	case 10:
		return strings.EqualFold(name, "Connection") || strings.EqualFold(name, "Keep-Alive")
	case 14:
		return strings.EqualFold(name, "Content-Length")
	case 16:
		return strings.EqualFold(name, "Proxy-Connection")
	case 17:
		return strings.EqualFold(name, "Transfer-Encoding")
	default:
		return false
	}
}

// The classes of bytes in a head (RFC 9110, sections 5.5 and 5.6.2).
const (
	tokenByte   = 1 << iota // may be in a name
	valueByte               // may be in a value
	visibleByte             // may be in a target
)

var byteClass = func() (class [256]uint8) {
	for c := range class {
		if c > ' ' && c != 0x7f {
			class[c] |= valueByte | visibleByte
		}
		if c < 0x80 && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0) {
			class[c] |= tokenByte
		}
	}
	class[' '] |= valueByte
	class['\t'] |= valueByte
	return class
}()

func isToken[T string | []byte](s T) bool      { return len(s) > 0 && allOf(s, tokenByte) }
func isVisible[T string | []byte](s T) bool    { return len(s) > 0 && allOf(s, visibleByte) }
func isFieldValue[T string | []byte](s T) bool { return allOf(s, valueByte) }

func allOf[T string | []byte](s T, class uint8) bool {
	for i := range len(s) {
		if byteClass[s[i]]&class == 0 {
			return false
		}
	}
	return true
}
