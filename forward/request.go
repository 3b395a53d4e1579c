package forward

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/share"
)

// A Field is one header line.
type Field struct{ Name, Value string }

// A Request is a request to an issuer. The package only reads it, and only until
// [Forwarder.Do] returns.
type Request struct {
	Caller share.Caller // whose share of MaxConnections it uses
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
	return len(name) < len(ownFields) && slices.ContainsFunc(ownFields[len(name)], func(own string) bool { return strings.EqualFold(own, name) })
}

// ownFields holds the names by their lengths.
var ownFields = [...][]string{
	2: {"TE"}, 4: {"Host"}, 6: {"Expect"}, 7: {"Trailer", "Upgrade"}, 10: {"Connection", "Keep-Alive"},
	14: {"Content-Length"}, 16: {"Proxy-Connection"}, 17: {"Transfer-Encoding"},
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

// The sizes of the buffers that answers are read through. The large one holds
// the largest head; few answers need it.
const (
	maxHeadBytes = 64 << 10 // of all heads of one answer, 1xx included
	smallInput   = 8 << 10
	largeInput   = maxHeadBytes
)

var (
	inputs       = sync.Pool{New: func() any { return &input{small: bufio.NewReaderSize(nil, smallInput)} }}
	largeReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, largeInput) }}
)

// An input is the buffered side of a connection from which one answer is read.
// Idle connections have none.
type input struct {
	*bufio.Reader // small, or a large one
	small         *bufio.Reader
	source        io.Reader
}

func newInput(source io.Reader) *input {
	in := inputs.Get().(*input)
	in.Reader, in.source = in.small, source
	in.Reset(source)
	return in
}

// more waits until more than n bytes are buffered; n bytes must be buffered
// already. It moves to a larger buffer when this one is full.
func (in *input) more(n int) error {
	if n >= in.Size() && in.Reader == in.small {
		b, _ := in.small.Peek(n)
		in.Reader = largeReaders.Get().(*bufio.Reader)
		in.Reset(io.MultiReader(bytes.NewReader(bytes.Clone(b)), in.source))
	}
	_, err := in.Peek(n + 1)
	return err
}

// free returns the buffers to their pools. The input must not be used afterwards.
func (in *input) free() {
	if in.Reader != in.small {
		in.Reset(nil)
		largeReaders.Put(in.Reader)
	}
	in.small.Reset(nil)
	in.Reader, in.source = nil, nil
	inputs.Put(in)
}

// uploadBlock is the number of bytes of a long body that are written under one
// deadline.
const uploadBlock = 256 << 10

// The states of an upload.
const (
	uploadReading int32 = iota // of the stream
	uploadWriting              // the whole stream was read
	uploadDone
	uploadStopped // by the final answer, or by a failure to read it
)

// An upload sends the rest of a long body while another goroutine reads the head
// of the answer, which may arrive before the issuer has read all. Until that
// goroutine has ended, nothing else reads the connection.
type upload struct {
	*exchange
	state atomic.Int32
	found found
	heard chan struct{} // closed when found is set
}

// upload sends the last bytes of the body, after those that were sent with the
// head. Without an error an answer can be expected.
func (x *exchange) upload(rest int64) *Error {
	u := &upload{exchange: x, heard: make(chan struct{})}
	if err := x.c.SetReadDeadline(time.Time{}); err != nil {
		return &Error{Kind: KindClosed, Text: textBeforeHead}
	}
	go u.listen()
	var failed *Error
	if x.r.Stream != nil {
		x.whole, failed = u.stream(rest)
	} else {
		u.state.CompareAndSwap(uploadReading, uploadWriting)
		x.whole, failed = u.write(x.r.Body[len(x.body):])
	}
	stopped := u.state.Swap(uploadDone) == uploadStopped
	if failed != nil && !stopped && failed.Kind != KindClosed {
		x.c.drop() // which ends the listening
		<-u.heard
		return failed
	}
	_ = x.c.SetReadDeadline(x.answerDeadline())
	<-u.heard
	x.early = &u.found
	return nil
}

// listen reads the head of the answer. The upload goes on meanwhile, until the
// final answer begins or no answer can be read: an issuer that sends an
// informational answer still expects the whole body.
func (u *upload) listen() {
	defer close(u.heard)
	u.found.h, u.found.fault, u.found.err = readHead(u.in, u.stop)
	u.stop()
}

// stop ends the upload, if the body was not sent yet. It does so once.
func (u *upload) stop() {
	reading := u.state.CompareAndSwap(uploadReading, uploadStopped)
	if !reading && !u.state.CompareAndSwap(uploadWriting, uploadStopped) {
		return
	}
	_ = u.c.SetWriteDeadline(time.Unix(1, 0))
	if reading && u.r.StopStream != nil {
		u.r.StopStream()
	}
}

// stream sends the rest of a stream, through the block that held its first
// bytes. It reports whether all was written.
func (u *upload) stream(rest int64) (whole bool, failed *Error) {
	for rest > 0 {
		n, err := u.r.Stream.Read(u.block[:min(rest, alone)])
		if rest -= int64(n); rest == 0 {
			err = nil
			u.state.CompareAndSwap(uploadReading, uploadWriting)
		}
		if whole, failed = u.write(u.block[:n]); !whole {
			return false, failed
		}
		if err != nil {
			return false, uploadError(err)
		}
	}
	return true, nil
}

// write writes a part of the body, block by block. It reports whether all of
// it was written; without an error the upload was stopped.
func (u *upload) write(p []byte) (whole bool, failed *Error) {
	for len(p) > 0 {
		block := p[:min(len(p), uploadBlock)]
		p = p[len(block):]
		_ = u.c.SetWriteDeadline(u.answerDeadline())
		if u.state.Load() == uploadStopped {
			return false, nil // its deadline may just have been overwritten
		}
		switch _, err := u.c.Write(block); {
		case err == nil:
		case u.state.Load() == uploadStopped:
			return false, nil
		case isTimeout(err):
			return false, &Error{Kind: KindTimeout, Text: textStalled}
		default:
			return false, &Error{Kind: KindClosed, Text: textBeforeHead}
		}
	}
	return true, nil
}
