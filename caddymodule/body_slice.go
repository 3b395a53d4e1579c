package caddymodule

import (
	"bytes"
	"net/http"
	"strconv"
)

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
