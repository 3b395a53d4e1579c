package caddymodule

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

const (
	// lookFrom is the size from which on a body is held only after a look at
	// what the store would answer.
	lookFrom = 64 << 10
	// lookAfter is how long a body is waited for before the same look. What
	// net/http has read ahead and what is in the socket comes sooner.
	lookAfter = 10 * time.Millisecond
)

// A bodyReader reads one request body under a size limit, the shares of memory
// and a deadline.
type bodyReader struct {
	arrival
	max  int64
	hold reservation // where the bytes are counted
	// look is asked once, before much memory is held or the body is waited
	// for, whether it is worth holding. Nil: the body is not held at all, only
	// hashed, so that an unproven sender makes us hold no memory.
	look func() (worth bool, refusal *auth.Refusal)

	body   *heldBody
	looked bool
	digest hash.Hash // not nil: the body is hashed and discarded
	total  int64
}

// A readBody is what a bodyReader found.
type readBody struct {
	held *heldBody // nil: it was discarded
	sum  [sha256.Size]byte
}

// read reads the whole body. The refusals are BodyTooLarge, BodyTimeout,
// OverBudget, ClientGone, MalformedRequest for a body that is framed wrongly or
// shorter than its Content-Length, and what look returned.
func (br *bodyReader) read(w http.ResponseWriter, r *http.Request) (readBody, *auth.Refusal) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return readBody{held: &heldBody{}, sum: sha256.Sum256(nil)}, nil
	}
	if r.ContentLength > br.max {
		return readBody{}, bodyTooLarge(br.max)
	}
	br.begin(w)
	defer br.end()
	refusal := br.readAll(r)
	if refusal == nil && r.ContentLength >= 0 && br.length() != r.ContentLength {
		refusal = bodyCutShort(nil) // net/http sees to it, but not over HTTP/3
	}
	if refusal != nil {
		br.body.release()
		return readBody{}, refusal
	}
	if br.digest != nil {
		return readBody{sum: [sha256.Size]byte(br.digest.Sum(nil))}, nil
	}
	return readBody{held: br.body, sum: br.body.hash()}, nil
}

// length returns how many bytes of the body were read.
func (br *bodyReader) length() int64 {
	if br.digest != nil {
		return br.total
	}
	return br.body.size
}

func (br *bodyReader) readAll(r *http.Request) *auth.Refusal {
	if br.look == nil {
		br.digest = sha256.New()
		return br.discard(r)
	}
	br.body = &heldBody{hold: br.hold}
	if r.ContentLength > lookFrom || br.hold.scarce() {
		if refusal := br.lookOnce(); refusal != nil || br.digest != nil {
			return br.discardUnless(refusal, r)
		}
	}
	most := r.ContentLength
	if most < 0 {
		most = br.max + 1 // room enough to see that the limit is passed
	}
	size := min(firstRead, most)
	if refusal := br.body.hold.grow(size); refusal != nil {
		return refusal
	}
	br.body.small = make([]byte, 0, size)
	return br.keep(r)
}

// keep reads the body into memory. It goes over to discarding when a look says
// that the body is not worth holding.
func (br *bodyReader) keep(r *http.Request) *auth.Refusal {
	for {
		if br.body.full() {
			if refusal := br.grow(); refusal != nil || br.digest != nil {
				return br.discardUnless(refusal, r)
			}
		}
		n, err := r.Body.Read(br.body.room())
		br.body.filled(n)
		switch {
		case br.body.size > br.max:
			return bodyTooLarge(br.max)
		case errors.Is(err, io.EOF), err == nil && br.body.size == r.ContentLength:
			return nil
		case err != nil:
			return br.failed(r, err)
		}
		br.arrived(n)
		if time.Since(br.began) < lookAfter {
			continue
		}
		if refusal := br.lookOnce(); refusal != nil || br.digest != nil {
			return br.discardUnless(refusal, r)
		}
	}
}

// grow makes room for more of the body, after a look where it becomes large.
func (br *bodyReader) grow() *auth.Refusal {
	if br.body.size >= lookFrom || br.body.hold.scarce() {
		if refusal := br.lookOnce(); refusal != nil || br.digest != nil {
			return refusal
		}
	}
	return br.body.addBlock()
}

// lookOnce asks whether the body is worth holding. If not, what has come of it
// is hashed, its memory given back, and digest is set.
func (br *bodyReader) lookOnce() *auth.Refusal {
	if br.looked {
		return nil
	}
	br.looked = true
	worth, refusal := br.look()
	if refusal != nil || worth {
		return refusal
	}
	br.digest = sha256.New()
	_, _ = io.Copy(br.digest, &heldReader{body: br.body})
	br.total = br.body.size
	br.body.release()
	return nil
}

func (br *bodyReader) discardUnless(refusal *auth.Refusal, r *http.Request) *auth.Refusal {
	if refusal != nil {
		return refusal
	}
	return br.discard(r)
}

// discardBlocks are small, because a sender that proved nothing may hold one
// for as long as its body takes.
var discardBlocks = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// discard hashes the rest of the body and holds nothing of it.
func (br *bodyReader) discard(r *http.Request) *auth.Refusal {
	block := discardBlocks.Get().(*[4 << 10]byte)
	defer discardBlocks.Put(block)
	for {
		n, err := r.Body.Read(block[:])
		br.digest.Write(block[:n])
		if br.total += int64(n); br.total > br.max {
			return bodyTooLarge(br.max)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return br.failed(r, err)
		}
		br.arrived(n)
	}
}
