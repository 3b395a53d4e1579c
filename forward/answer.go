package forward

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/share"
)

// An Answer is what an issuer answered. It is used by one goroutine.
type Answer struct {
	Status int // 200 to 599
	// Fields are the header lines in the issuer's order, with the canonical names
	// of net/http, and without those that belong to one connection.
	Fields []Field
	// Length is the number of bytes that Read returns in all; -1 if it is unknown.
	Length int64
	// EventStream reports that each piece should be flushed when it arrives.
	EventStream bool
	Issuer      string // its address

	rest    []byte    // of a body that has arrived
	body    io.Reader // one that is still arriving; nil: none
	in      *input
	caller  share.Caller
	c       *conn // nil after the answer has released its connection
	ctx     context.Context
	stop    func() bool
	options *Options
	keep    bool // the connection may be used again when the body has ended
	failed  *Error
}

// answer returns the answer for a head that was checked. If the whole body is in
// the buffer already, the connection is free for other requests at once.
func (x *exchange) answer(h *head) (*Answer, *Error) {
	text, _ := x.in.Peek(h.size)
	a := &Answer{
		Status: h.status, Fields: h.fields(text), Issuer: x.c.issuer.name,
		in: x.in, caller: x.r.Caller, c: x.c, ctx: x.ctx, stop: x.stop, options: x.options,
		keep: x.whole && h.minor == 1 && !h.closes,
	}
	bodiless, behind := h.bodiless(x.r.Method), int64(x.in.Buffered()-h.size)
	if h.chunked || !bodiless && (h.length < 0 || h.length > behind) {
		if err := a.readOn(h, x.r.Method); err != nil {
			return nil, err
		}
		behind = int64(x.in.Buffered())
	} else {
		_, _ = x.in.Discard(h.size)
	}
	switch {
	case bodiless:
		// If the issuer still sends the body, later, it would be taken for the
		// answer to the next request.
		a.body, a.Length = nil, 0
		a.keep = a.keep && !h.announcesBody()
		a.settle(int(behind))
	case a.body == nil:
		a.Length = h.length
		a.rest, _ = x.in.Peek(int(h.length))
		a.settle(int(behind - h.length))
	case a.EventStream:
		_ = x.c.SetReadDeadline(time.Time{})
	}
	if a.Length == 0 {
		a.release()
	}
	return a, nil
}

// headRequest is the request that net/http needs to read the answer to HEAD.
var headRequest = &http.Request{Method: http.MethodHead}

// readOn lets net/http read the head and the body: one that has not arrived as a
// whole, or that is not framed by its length.
func (a *Answer) readOn(h *head, method string) *Error {
	var about *http.Request
	if method == http.MethodHead {
		about = headRequest
	}
	response, err := http.ReadResponse(a.in.Reader, about) //nolint:bodyclose // Close would read to the end; the connection is closed instead
	if err != nil || response.StatusCode != h.status {
		return &Error{Kind: KindMalformed, Text: faultParser}
	}
	a.keep = a.keep && !response.Close
	a.Length, a.body = response.ContentLength, response.Body
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	a.EventStream = media == "text/event-stream"
	return nil
}

// Read reads the body. At its end the error is io.EOF, else an *Error.
func (a *Answer) Read(p []byte) (int, error) {
	switch {
	case a.failed != nil:
		return 0, a.failed
	case a.body == nil && len(a.rest) == 0:
		a.release()
		return 0, io.EOF
	case a.body == nil:
		n := copy(p, a.rest)
		a.rest = a.rest[n:]
		return n, nil
	}
	if !a.EventStream {
		_ = a.c.SetReadDeadline(time.Now().Add(a.options.StallTimeout))
	}
	n, err := a.body.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		a.body = nil
		a.settle(a.in.Buffered())
		a.release()
		return n, io.EOF
	default:
		return n, a.cut(err)
	}
}

// cut ends a body that did not reach its end.
func (a *Answer) cut(err error) *Error {
	e := ended(a.ctx)
	switch {
	case e != nil:
	case isTimeout(err):
		e = &Error{Kind: KindBodyCut, Text: "the body of the answer stalled"}
	default:
		e = &Error{Kind: KindBodyCut, Text: "the body of the answer ended early or broke its framing"}
	}
	e.Issuer, e.Forwarded = a.Issuer, true
	if e.Kind == KindBodyCut {
		a.options.Observer.Problem(e)
	}
	a.end(e)
	return e
}

// Close ends the answer. When its body was not read to the end, the connection
// is closed, so that the issuer stops. Close may be called repeatedly.
func (a *Answer) Close() error {
	a.end(errClosed)
	return nil
}

// errClosed is what Read returns after Close.
var errClosed = &Error{Kind: KindCanceled, Forwarded: true, Text: "the answer was closed"}

func (a *Answer) end(reason *Error) {
	if a.failed == nil {
		a.failed = reason
	}
	a.keep = false
	a.settle(0)
	a.release()
}

// settle gives the connection to the next request, or closes it. behind is the
// number of bytes that arrived after the answer.
func (a *Answer) settle(behind int) {
	c := a.c
	if c == nil {
		return
	}
	a.c = nil
	if behind > 0 {
		a.keep = false
		c.issuer.report(KindBehind, "the issuer sent "+strconv.Itoa(behind)+" bytes behind its answer")
	}
	if a.stop != nil && !a.stop() {
		a.keep = false // the context has ended and closes the connection
	}
	if a.keep {
		c.issuer.put(c)
	} else {
		c.drop()
	}
	c.issuer.leave(&a.caller)
}

// release returns the buffer to its pool.
func (a *Answer) release() {
	a.rest, a.body = nil, nil
	if a.in != nil {
		a.in.free()
		a.in = nil
	}
}

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// CopyTo writes the whole body to a client, and closes the answer. The flush
// function may be nil. If the body is an event stream or its length is not known,
// flush is called before each read that may wait, so that the client gets everything
// that the issuer has sent so far. A body that arrived as a whole is not flushed.
//
// The error is an *Error: KindCanceled if writing to the client fails, else the
// error of Read. In both cases the body is not complete, and the client must be
// able to notice that.
func (a *Answer) CopyTo(w io.Writer, flush func() error) (written int64, err error) {
	defer a.Close()
	if a.body == nil && a.failed == nil {
		if len(a.rest) == 0 {
			return 0, nil
		}
		n, err := w.Write(a.rest)
		return int64(n), a.clientError(err)
	}
	if a.Length >= 0 && !a.EventStream {
		flush = nil
	}
	if flush != nil && a.in.Buffered() == 0 { // the client need not wait with the head for the first byte
		if err := flush(); err != nil {
			return 0, a.clientError(err)
		}
	}
	buffer := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buffer)
	for {
		n, err := a.Read(buffer[:])
		if n > 0 {
			n, failed := w.Write(buffer[:n])
			written += int64(n)
			if failed == nil && flush != nil && err == nil {
				failed = flush()
			}
			if failed != nil {
				return written, a.clientError(failed)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return written, nil
		case err != nil:
			return written, err
		}
	}
}

func (a *Answer) clientError(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: KindCanceled, Issuer: a.Issuer, Forwarded: true, Text: textCanceled}
}
