package forward

import (
	"sync/atomic"
	"time"
)

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
