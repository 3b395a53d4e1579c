package forward

import (
	"io"
	"sync/atomic"
	"time"
)

// uploadBlock is how much of a long body is written under one deadline.
const uploadBlock = 256 << 10

// The states of an upload.
const (
	uploading int32 = iota
	uploadDone
	uploadStopped // by an answer, or by the end of the connection
)

// An upload sends what is left of a long body while another goroutine waits
// for the answer, which may come before the issuer has read all.
type upload struct {
	*exchange
	state atomic.Int32
	heard chan struct{} // closed when the answer has begun, or will not
}

// upload sends the last bytes of the body, after those that went with the
// head. No error means that an answer may be expected.
func (x *exchange) upload(rest int64) *Error {
	u := &upload{exchange: x, heard: make(chan struct{})}
	if err := x.c.SetReadDeadline(time.Time{}); err != nil {
		return &Error{Kind: KindClosed, Text: textBeforeHead}
	}
	go u.listen()
	var failed *Error
	if x.r.Stream != nil {
		failed = u.stream(rest)
	} else {
		_, failed = u.write(x.r.Body[len(x.body):])
	}
	stopped := !u.state.CompareAndSwap(uploading, uploadDone)
	x.whole = failed == nil && !stopped
	if failed != nil && !stopped && failed.Kind != KindClosed {
		x.c.drop() // which ends the listening
		<-u.heard
		return failed
	}
	_ = x.c.SetReadDeadline(x.answerDeadline())
	<-u.heard
	return nil
}

// listen waits for the first byte of the answer. When it comes too early, the
// upload is over.
func (u *upload) listen() {
	defer close(u.heard)
	_, _ = u.in.Peek(1)
	if u.state.CompareAndSwap(uploading, uploadStopped) {
		_ = u.c.SetWriteDeadline(time.Unix(1, 0))
		if u.r.StopStream != nil {
			u.r.StopStream()
		}
	}
}

// stream sends the rest of a stream, through the block that held its beginning.
func (u *upload) stream(rest int64) *Error {
	for rest > 0 {
		block := u.output.block[:min(rest, alone)]
		n, err := u.r.Stream.Read(block)
		if n > 0 {
			rest -= int64(n)
			if stopped, failed := u.write(block[:n]); stopped || failed != nil {
				return failed
			}
		}
		if err != nil && (rest > 0 || err != io.EOF) {
			return uploadError(err)
		}
	}
	return nil
}

// write writes a part of the body, block by block. It reports whether the
// upload was stopped meanwhile.
func (u *upload) write(p []byte) (stopped bool, failed *Error) {
	for len(p) > 0 {
		block := p[:min(len(p), uploadBlock)]
		p = p[len(block):]
		_ = u.c.SetWriteDeadline(u.answerDeadline())
		if u.state.Load() != uploading {
			return true, nil // also when its deadline was just overwritten
		}
		switch _, err := u.c.Write(block); {
		case err == nil:
		case u.state.Load() != uploading:
			return true, nil
		case isTimeout(err):
			return false, &Error{Kind: KindTimeout, Text: textStalled}
		default:
			return false, &Error{Kind: KindClosed, Text: textBeforeHead}
		}
	}
	return false, nil
}
