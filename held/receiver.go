package held

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

const (
	// lookFrom is the size in bytes from which on a body is held only after the
	// store was asked whether the request could pass: look.
	lookFrom = 64 << 10
	// lookAfter is the time that a body may take before look is called. Bytes
	// that net/http has read ahead, or that are in the socket, arrive sooner.
	lookAfter = 10 * time.Millisecond
)

// A Receiver reads one request body under a size limit, the shares of memory
// and a deadline.
type Receiver struct {
	Max     int64         // bytes
	Timeout time.Duration // for the whole body
	Memory  Reservation   // where the bytes are counted
	// Pooled: nobody reads the body after its release except through a
	// Reader, so its memory may hold another body then.
	Pooled bool
	// Look is called at most once, before much memory is held or the receiver
	// waits for the body. It reports whether the body is worth holding. If Look
	// is nil, the body is only hashed, so that an unproven sender uses no memory.
	Look func() (worth bool, refusal *auth.Refusal)

	arrival

	body   *Body // nil, or first
	first  Body
	looked bool
	digest hash.Hash // not nil: the body is hashed and discarded
	total  int64
}

// Received is the result of a Receiver.
type Received struct {
	Body *Body // nil: it was discarded
	Sum  [sha256.Size]byte
	Size int64
}

// noBodySum is the hash of a body that is empty.
var noBodySum = sha256.Sum256(nil)

// Receive reads the whole body. The refusals are BodyTooLarge, BodyTimeout,
// OverBudget, ClientGone, MalformedRequest for wrong framing or a body that is
// shorter than its Content-Length, and that of Look.
func (br *Receiver) Receive(w http.ResponseWriter, r *http.Request) (Received, *auth.Refusal) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return Received{Body: &br.first, Sum: noBodySum}, nil
	}
	if r.ContentLength > br.Max {
		return Received{}, bodyTooLarge(br.Max)
	}
	br.begin(w, br.Timeout)
	defer br.end()
	refusal := br.readAll(r)
	if refusal == nil && r.ContentLength >= 0 && br.length() != r.ContentLength {
		refusal = bodyCutShort(nil) // net/http checks this, but not over HTTP/3
	}
	if refusal != nil {
		br.body.Release()
		return Received{}, refusal
	}
	if br.digest != nil {
		return Received{Sum: [sha256.Size]byte(br.digest.Sum(nil)), Size: br.total}, nil
	}
	return Received{Body: br.body, Sum: br.body.Hash(), Size: br.body.size}, nil
}

// length returns how many bytes of the body were read.
func (br *Receiver) length() int64 {
	if br.digest != nil {
		return br.total
	}
	return br.body.size
}

func (br *Receiver) readAll(r *http.Request) *auth.Refusal {
	if br.Look == nil {
		br.digest = sha256.New()
		return br.discard(r)
	}
	br.body = &br.first
	br.body.hold = br.Memory
	if r.ContentLength > lookFrom || br.Memory.scarce() {
		if refusal := br.lookOnce(); refusal != nil || br.digest != nil {
			return br.discardUnless(refusal, r)
		}
	}
	most := r.ContentLength
	if most < 0 {
		most = br.Max + 1 // enough to notice a body over the limit
	}
	br.body.pooled = br.Pooled
	if refusal := br.body.Begin(most); refusal != nil {
		return refusal
	}
	return br.keep(r)
}

// keep reads the body into memory. When look reports that the body is not worth
// holding, it discards the rest.
func (br *Receiver) keep(r *http.Request) *auth.Refusal {
	for {
		if br.body.full() {
			if refusal := br.Grow(); refusal != nil || br.digest != nil {
				return br.discardUnless(refusal, r)
			}
		}
		n, err := r.Body.Read(br.body.room())
		br.body.filled(n)
		switch {
		case br.body.size > br.Max:
			return bodyTooLarge(br.Max)
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

// Grow makes room for more of the body. If the body becomes large, or memory is
// scarce, it calls lookOnce first.
func (br *Receiver) Grow() *auth.Refusal {
	if br.body.size >= lookFrom || br.body.hold.scarce() {
		if refusal := br.lookOnce(); refusal != nil || br.digest != nil {
			return refusal
		}
	}
	return br.body.addBlock()
}

// lookOnce calls look, the first time only. If the body is not worth holding, it
// hashes the bytes read so far, releases their memory and sets digest.
func (br *Receiver) lookOnce() *auth.Refusal {
	if br.looked {
		return nil
	}
	br.looked = true
	worth, refusal := br.Look()
	if refusal != nil || worth {
		return refusal
	}
	br.digest = sha256.New()
	br.body.hashInto(br.digest)
	br.total = br.body.size
	br.body.Release()
	return nil
}

func (br *Receiver) discardUnless(refusal *auth.Refusal, r *http.Request) *auth.Refusal {
	if refusal != nil {
		return refusal
	}
	return br.discard(r)
}

// discardBlocks are small, because an unproven sender may occupy one for as long
// as its body takes.
var discardBlocks = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// discard hashes the rest of the body and keeps no byte of it.
func (br *Receiver) discard(r *http.Request) *auth.Refusal {
	block := discardBlocks.Get().(*[4 << 10]byte)
	defer discardBlocks.Put(block)
	for {
		n, err := r.Body.Read(block[:])
		br.digest.Write(block[:n])
		if br.total += int64(n); br.total > br.Max {
			return bodyTooLarge(br.Max)
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

// The first bytes of a body must arrive within arrivalGrace, and the rest at
// leastRate, in bytes per second.
const (
	arrivalGrace = 5 * time.Second
	leastRate    = 4 << 10
)

// An arrival is the time in which one body must arrive.
type arrival struct {
	timeout time.Duration
	began   time.Time
	until   time.Time // the current read deadline
	w       http.ResponseWriter
}

// extend moves the deadline to until.
func (a *arrival) extend(until time.Time) { _ = http.NewResponseController(a.w).SetReadDeadline(until) }

// begin sets the first deadline.
func (a *arrival) begin(w http.ResponseWriter, timeout time.Duration) {
	a.w, a.timeout, a.began = w, timeout, time.Now()
	a.until = a.began.Add(min(arrivalGrace, a.timeout))
	a.extend(a.until)
}

// end removes the deadline.
func (a *arrival) end() { a.extend(time.Time{}) }

// arrived extends the deadline by the time that n bytes may take at leastRate.
func (a *arrival) arrived(n int) {
	a.until = a.until.Add(time.Duration(n) * time.Second / leastRate)
	if last := a.began.Add(a.timeout); a.until.After(last) {
		a.until = last
	}
	a.extend(a.until)
}

// failed returns the refusal for a body that could not be read.
func (a *arrival) failed(r *http.Request, err error) *auth.Refusal {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &auth.Refusal{Reason: auth.BodyTimeout, Log: "a body must begin to arrive within " + arrivalGrace.String() +
			", go on at " + strconv.Itoa(leastRate) + " bytes a second and be complete within " + a.timeout.String()}
	case errors.As(err, &tooLarge): // from a handler before card_auth
		return bodyTooLarge(tooLarge.Limit)
	case errors.Is(err, io.ErrUnexpectedEOF): // its sender may still listen
		return bodyCutShort(err)
	case errors.Is(r.Context().Err(), context.Canceled):
		return &auth.Refusal{Reason: auth.ClientGone, Cause: err}
	default:
		return &auth.Refusal{Reason: auth.MalformedRequest, Message: "The request body is framed wrongly", Cause: err}
	}
}

func bodyTooLarge(limit int64) *auth.Refusal {
	return &auth.Refusal{
		Reason:  auth.BodyTooLarge,
		Message: "The request body is larger than the " + strconv.FormatInt(limit, 10) + " bytes that this operation allows",
	}
}

func bodyCutShort(cause error) *auth.Refusal {
	return &auth.Refusal{Reason: auth.MalformedRequest, Message: "The request body is shorter than was announced", Cause: cause}
}

// What a stranger may cost. A body of this size needs no leave of the server to be
// sent, so it follows the head at once. net/http reads as much of a body over HTTP/1.
const (
	restOfRefused = 256 << 10 // bytes
	restWait      = time.Second
)

// DiscardRest reads the rest of the body of a refused request over HTTP/2 and 3. A
// stream whose body was not read is reset behind the answer (RFC 9113, section 8.1),
// and some clients then drop the answer, curl 7.88 among them: nobody would see why
// the request was refused. A body that is too large or too slow is left, as before.
//
// It comes before the answer, because reading may send 100 Continue.
func DiscardRest(w http.ResponseWriter, r *http.Request) { discardRest(w, r, restOfRefused, restWait) }

func discardRest(w http.ResponseWriter, r *http.Request, most int64, wait time.Duration) {
	if r.ProtoMajor < 2 || r.Body == nil || r.Body == http.NoBody || r.ContentLength > most {
		return
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(wait)) != nil {
		return // it could wait for ever
	}
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	block := discardBlocks.Get().(*[4 << 10]byte)
	defer discardBlocks.Put(block)
	for left := most; left > 0; {
		n, err := r.Body.Read(block[:])
		if left -= int64(n); err != nil {
			return
		}
	}
}
