package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// joinBelow is the size up to which a body is copied behind the head. A
	// larger one is written beside it by the same system call.
	joinBelow = 16 << 10
	// alone is the size up to which a body fits into the buffers of the
	// sockets. While a larger one is sent, a second goroutine waits for the answer.
	alone = 64 << 10
	// maxKeptOutput is the size up to which an output buffer is used again.
	maxKeptOutput = joinBelow + 16<<10
)

// An exchange is one request that is being sent. At most one connection has a
// byte of it.
type exchange struct {
	ctx     context.Context
	r       *Request
	options *Options
	body    []byte // the part of the body that is sent with the head
	c       *conn
	in      *input
	stop    func() bool // ends the watch over the context; nil: there is none
	wrote   bool        // a byte of the request reached the socket
	whole   bool        // all of it did
	early   *found      // nil: nothing was sent that long
	output
}

// found is what readHead has returned while the body was sent.
type found struct {
	h     head
	fault string
	err   error
}

// An output holds the bytes to write: the head, and the part of the body that is
// sent with it.
type output struct {
	head  []byte
	both  [2][]byte
	block *[alone]byte // of a stream; nil without a stream
}

var (
	exchanges = sync.Pool{New: func() any { return new(exchange) }}
	blocks    = sync.Pool{New: func() any { return new([alone]byte) }}
)

func newExchange(ctx context.Context, r *Request, options *Options) *exchange {
	x := exchanges.Get().(*exchange)
	x.ctx, x.r, x.options, x.body = ctx, r, options, r.Body
	return x
}

// free returns the buffers to their pools, without any data of the request.
func (x *exchange) free() {
	if x.block != nil {
		blocks.Put(x.block)
	}
	head := x.head
	if cap(head) > maxKeptOutput {
		head = nil
	}
	*x = exchange{output: output{head: head}}
	exchanges.Put(x)
}

// prepare checks the request and reads the beginning of a stream, before any
// connection is held.
func (x *exchange) prepare() error {
	if fault := x.r.fault(); fault != "" {
		return &Error{Kind: KindRequest, Text: fault}
	}
	if x.r.Stream != nil && x.r.Length > 0 {
		x.block = blocks.Get().(*[alone]byte)
		x.body = x.block[:min(x.r.Length, alone)]
		if _, err := io.ReadFull(x.r.Stream, x.body); err != nil {
			return uploadError(err)
		}
	}
	x.body = x.body[:min(len(x.body), alone)]
	return nil
}

// on sends the request to an issuer, and updates the issuer's health by the
// result.
func (x *exchange) on(is *issuer) (*Answer, *Error) {
	err := is.enter(x.ctx, &x.r.Caller)
	var answer *Answer
	if err == nil {
		if answer, err = x.attempt(is); err != nil {
			is.leave(&x.r.Caller)
		}
	}
	switch {
	case err == nil:
		is.health.answered()
		return answer, nil
	case err.fault():
		is.options.Observer.Problem(err)
		if is.health.failed(is.options.Now(), err.pace) {
			is.report(KindOut, "out after repeated failures")
		}
	default:
		is.health.unknown()
		if err.Kind == KindBusy || err.Kind == KindTimeout && !err.ended {
			is.options.Observer.Problem(err)
		}
	}
	return nil, err
}

// attempt finds a connection that takes the first byte and uses it.
func (x *exchange) attempt(is *issuer) (*Answer, *Error) {
	for {
		c := is.take()
		if c == nil {
			var err *Error
			if c, err = is.dial(x.ctx); err != nil {
				if gone := ended(x.ctx); gone != nil {
					err = gone
				}
				err.Issuer = is.name
				return nil, err
			}
		}
		answer, err := x.use(c)
		if err == nil {
			return answer, nil
		}
		if err.Kind != KindDial || !c.reused {
			return nil, err
		}
	}
}

// use sends the request on a connection and reads the head of the answer.
func (x *exchange) use(c *conn) (*Answer, *Error) {
	x.c, x.in = c, newInput(c)
	x.stop = nil
	if cheap, can := x.ctx.(interface{ AfterFunc(func()) func() bool }); can { // Done may cost more
		x.stop = cheap.AfterFunc(c.abort)
	} else if x.ctx.Done() != nil {
		x.stop = context.AfterFunc(x.ctx, c.abort)
	}
	var answer *Answer
	err := x.send()
	if err == nil {
		answer, err = x.receive()
	}
	if err == nil {
		return answer, nil
	}
	if x.stop != nil {
		x.stop()
	}
	x.in.free()
	c.drop()
	if gone := ended(x.ctx); gone != nil {
		err = gone
	}
	err.Issuer, err.Forwarded = c.issuer.name, x.wrote
	return nil, err
}

// send writes the request. Without an error an answer can be expected, even if
// the issuer did not take all of the request.
func (x *exchange) send() *Error {
	n, err := x.writeFirst()
	x.wrote = n > 0
	rest := x.r.length() - int64(len(x.body))
	switch {
	case err != nil && !x.wrote && !isTimeout(err):
		return &Error{Kind: KindDial, Text: "the connection was found closed"}
	case err != nil && isTimeout(err):
		return &Error{Kind: KindTimeout, Text: textStalled}
	case err == nil && rest > 0:
		return x.upload(rest)
	}
	x.whole = err == nil
	return nil
}

// writeFirst writes the head with the body or its beginning, in one write if the
// connection supports that. It returns how many bytes reached the socket.
func (x *exchange) writeFirst() (int64, error) {
	x.head = x.r.appendHead(x.head[:0], x.c.issuer.host)
	if x.c.wire != nil {
		x.c.wire.written = 0
	}
	if len(x.body) > joinBelow && x.c.wire == nil {
		x.both = [2][]byte{x.head, x.body}
		both := net.Buffers(x.both[:])
		return both.WriteTo(x.c.Conn)
	}
	body := x.body
	if len(body) > joinBelow {
		body = body[:joinBelow]
	}
	x.head = append(x.head, body...)
	n, err := x.c.Write(x.head)
	if err == nil && len(body) < len(x.body) {
		n, err = x.c.Write(x.body[len(body):])
	}
	return x.c.sent(n), err
}

// receive reads the head of the answer, if upload has not read it.
func (x *exchange) receive() (*Answer, *Error) {
	var h head
	var fault string
	var err error
	if x.early != nil {
		h, fault, err = x.early.h, x.early.fault, x.early.err
	} else {
		h, fault, err = readHead(x.in, nil)
	}
	switch {
	case fault != "":
		return nil, &Error{Kind: KindMalformed, Text: fault}
	case err != nil && isTimeout(err):
		return nil, &Error{Kind: KindTimeout, Text: textNoHead}
	case err != nil && alertText(err) != "":
		return nil, &Error{Kind: KindClosed, Text: alertText(err)}
	case err != nil && h.status == 0 && x.in.Buffered() == 0:
		return nil, &Error{Kind: KindClosed, Text: textBeforeHead}
	case err != nil:
		return nil, &Error{Kind: KindClosed, Text: textInHead}
	}
	return x.answer(&h)
}

// uploadError returns the error for a body of the caller that could not be sent.
func uploadError(err error) *Error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Kind: KindUpload, Text: "the request's body is shorter than its length"}
	}
	return &Error{Kind: KindUpload, Text: "the request's body could not be read"}
}

func (x *exchange) answerDeadline() time.Time { return time.Now().Add(x.options.AnswerTimeout) }
