package caddymodule

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// setBody makes the bytes the request's body, with one correct Content-Length
// and nothing of the framing that the client chose.
//
// GetBody is left out where net/http would use it to send a POST or PATCH a
// second time.
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
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// budget bounds the bytes of request bodies that are held at one time.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes and reports whether they were there to reserve.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) giveBack(n int64) { b.used.Add(-n) }

// hashers are pooled: a SHA-256 state and the block through which a body that
// is only hashed is read.
var hashers = sync.Pool{New: func() any { return &hasher{sum: sha256.New(), block: make([]byte, 32<<10)} }}

type hasher struct {
	sum   hash.Hash
	block []byte
}

// bodyReader reads one request body under a size limit, the global budget and
// a deadline for the whole of it.
type bodyReader struct {
	budget  *budget
	max     int64
	timeout time.Duration
	keep    bool // hold the bytes; else hash and discard them
}

// readBody is what a bodyReader found. Its reservation is given back by
// release, when the request has been served.
type readBody struct {
	bytes    []byte
	length   int64 // in bytes, also of a body that was only hashed
	sum      [sha256.Size]byte
	budget   *budget
	reserved int64
}

func (b *readBody) release() {
	if b != nil && b.reserved > 0 {
		b.budget.giveBack(b.reserved)
		b.reserved = 0
	}
}

// read reads the whole body. The refusals are BodyTooLarge, BodyTimeout,
// OverBudget, ClientGone, and MalformedRequest for a body that is framed
// wrongly or shorter than its Content-Length.
func (br *bodyReader) read(w http.ResponseWriter, r *http.Request) (*readBody, *auth.Refusal) {
	b := &readBody{budget: br.budget}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		b.sum = sha256.Sum256(nil)
		return b, nil
	}
	if r.ContentLength > br.max {
		return nil, br.tooLarge()
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(br.timeout)) == nil {
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	var refusal *auth.Refusal
	if br.keep {
		refusal = br.readKept(r, b)
	} else {
		refusal = br.readDiscarded(r, b)
	}
	if refusal == nil && r.ContentLength >= 0 && b.length != r.ContentLength {
		refusal = cutShort(nil) // net/http sees to it, but not over HTTP/3
	}
	if refusal != nil {
		b.release()
		return nil, refusal
	}
	return b, nil
}

// firstRead is how many bytes an announced length is believed to before any
// of them has come: whoever repeats a signed request, or has a key, must not
// use up the budget with announcements.
const firstRead = 16 << 10

func (br *bodyReader) readKept(r *http.Request, b *readBody) *auth.Refusal {
	most := r.ContentLength
	if most < 0 {
		most = br.max + 1 // room enough to see that the limit is passed
	}
	size := min(firstRead, most)
	if !br.reserve(b, size) {
		return overBudget()
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			if int64(len(buf)) == most {
				break
			}
			grown, refusal := br.grow(b, buf, most)
			if refusal != nil {
				return refusal
			}
			buf = grown
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return br.failed(r, err)
		}
	}
	if int64(len(buf)) > br.max {
		return br.tooLarge()
	}
	b.bytes, b.length = buf, int64(len(buf))
	b.sum = sha256.Sum256(buf)
	return nil
}

// grow doubles a full buffer, up to the most that can be needed.
func (br *bodyReader) grow(b *readBody, buf []byte, most int64) ([]byte, *auth.Refusal) {
	size := min(2*int64(cap(buf)), most)
	if !br.reserve(b, size-int64(cap(buf))) {
		return nil, overBudget()
	}
	grown := make([]byte, len(buf), size)
	copy(grown, buf)
	return grown, nil
}

func (br *bodyReader) reserve(b *readBody, n int64) bool {
	if !br.budget.take(n) {
		return false
	}
	b.reserved += n
	return true
}

func (br *bodyReader) readDiscarded(r *http.Request, b *readBody) *auth.Refusal {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.sum.Reset()
	var total int64
	for {
		n, err := r.Body.Read(h.block)
		h.sum.Write(h.block[:n])
		if total += int64(n); total > br.max {
			return br.tooLarge()
		}
		if errors.Is(err, io.EOF) {
			h.sum.Sum(b.sum[:0])
			b.length = total
			return nil
		}
		if err != nil {
			return br.failed(r, err)
		}
	}
}

func overBudget() *auth.Refusal {
	return &auth.Refusal{
		Reason:     auth.OverBudget,
		RetryAfter: time.Second,
		Log:        "the memory budget for request bodies (body_budget) is used up",
	}
}

func (br *bodyReader) tooLarge() *auth.Refusal {
	return &auth.Refusal{
		Reason:  auth.BodyTooLarge,
		Message: "The request body is larger than the " + strconv.FormatInt(br.max, 10) + " bytes that this operation allows",
	}
}

func (br *bodyReader) failed(r *http.Request, err error) *auth.Refusal {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &auth.Refusal{Reason: auth.BodyTimeout, Log: "the whole body must arrive within " + br.timeout.String()}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return cutShort(err) // the context has ended, too, whether or not the sender listens
	case errors.Is(r.Context().Err(), context.Canceled):
		return &auth.Refusal{Reason: auth.ClientGone, Cause: err}
	default:
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return br.tooLarge()
		}
		return &auth.Refusal{Reason: auth.MalformedRequest, Message: "The request body is framed wrongly", Cause: err}
	}
}

// cutShort refuses a body that ends too early. Its sender may have gone, or may
// still listen: that looks the same from here.
func cutShort(cause error) *auth.Refusal {
	return &auth.Refusal{
		Reason:  auth.MalformedRequest,
		Message: "The request body is shorter than announced",
		Log:     "the body ended before its Content-Length or its last chunk", Cause: cause,
	}
}
