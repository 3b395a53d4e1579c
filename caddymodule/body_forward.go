package caddymodule

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// errReleased is the error for a transport that reads a body after release.
var errReleased = errors.New("the request has been answered, and its body is gone")

// A heldReader reads a body once. Close releases the body, because the issuer
// has it then.
type heldReader struct {
	body *heldBody
	at   int64
}

func (r *heldReader) Read(p []byte) (int, error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.at >= b.size {
		return 0, io.EOF
	}
	var part []byte
	switch block := r.at / blockSize; {
	case b.blocks != nil:
		part = b.blocks[block][r.at%blockSize : min(blockSize, b.size-block*blockSize)]
	case b.small != nil:
		part = b.small[r.at:]
	default:
		return 0, errReleased
	}
	n := copy(p, part)
	r.at += int64(n)
	return n, nil
}

func (r *heldReader) Close() error {
	r.body.release()
	return nil
}

// forwardTo makes the held body the request's body.
func (b *heldBody) forwardTo(r *http.Request) {
	if b == nil || b.blocks == nil && (!b.pooled || b.size == 0) {
		setBody(r, b.contiguous())
		return
	}
	setBody(r, nil)
	r.ContentLength, r.Body = b.size, &heldReader{body: b}
	r.Header.Set("Content-Length", strconv.FormatInt(b.size, 10))
}

// A sliceBody is a request's body in one piece.
type sliceBody struct {
	bytes.Reader
	bytes []byte
}

func newSliceBody(body []byte) *sliceBody {
	b := &sliceBody{bytes: body}
	b.Reset(body)
	return b
}

// Close is part of io.Closer.
func (*sliceBody) Close() error { return nil }

// setBody makes the bytes the request's body, with one correct Content-Length
// and without the client's framing. It leaves GetBody out, because net/http
// would use it to send a request a second time.
func setBody(r *http.Request, body []byte) {
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	r.Trailer = nil
	r.GetBody = nil
	if len(body) == 0 {
		r.Body = http.NoBody
		r.Header.Del("Content-Length")
		return
	}
	r.Body = newSliceBody(body)
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
}
