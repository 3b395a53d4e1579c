// Package held reads the body of a request, and holds bodies and answers, in memory
// that is counted and shared out to tenants, keys and addresses. Begin with [Receiver] for a
// request, and with [Body] for what is held.
package held

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/share"
)

// A Memory hands out the memory in which bodies are held. It is bounded, and shared out
// to tenants, keys and addresses by the rule of [share.Pool].
type Memory struct {
	name string // the option that bounds it, for texts
	pool *share.Pool
}

// A Reservation is what one body holds of the memory. It belongs to one
// goroutine at a time.
type Reservation struct {
	memory *Memory // nil: it is not counted
	caller share.Caller
	bytes  int64
	ahead  int64 // the part of bytes that nothing uses yet
}

// Reserve returns an empty reservation for a request of a caller.
func (m *Memory) Reserve(caller share.Caller) Reservation {
	return Reservation{memory: m, caller: caller}
}

// Caller returns who has sent a request: the owner of the key, if there is one, from the
// address.
func Caller(key *auth.Key, client netip.Addr) share.Caller {
	c := share.Caller{Address: auth.Holder(client)}
	if key != nil {
		c.Tenant, c.Key = cmp.Or(key.Tenant, key.ID), key.ID
	}
	return c
}

// Used returns the bytes that are held.
func (m *Memory) Used() int64 { return m.pool.Used() }

// Limit returns the bytes that may be held in all.
func (m *Memory) Limit() int64 { return m.pool.Rule().Limit }

// A KeyHolder is how much memory the requests of a key hold.
type KeyHolder struct {
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
}

// Grow reserves n more bytes. The refusal is OverBudget. Its log text names the tenant,
// key or address whose share is used up, or states that all memory is.
func (r *Reservation) Grow(n int64) *auth.Refusal {
	used := min(n, r.ahead)
	if refusal := r.take(n-used, share.Started); refusal != nil {
		return refusal
	}
	r.ahead -= used
	return nil
}

// Ahead reserves bytes for a request that is about to start, so that there are n that Grow
// uses first.
func (r *Reservation) Ahead(n int64) *auth.Refusal {
	refusal := r.take(n-r.ahead, share.Starting)
	if refusal == nil {
		r.ahead = max(r.ahead, n)
	}
	return refusal
}

// take reserves n bytes.
func (r *Reservation) take(n int64, s share.Stage) *auth.Refusal {
	if r.memory == nil || n <= 0 {
		return nil
	}
	if level := r.memory.pool.Take(&r.caller, n, s); level != share.Granted {
		return r.memory.refusal(r, level)
	}
	r.bytes += n
	return nil
}

// Move returns the reservation and leaves an empty one of the same caller.
func (r *Reservation) Move() Reservation {
	moved := *r
	r.bytes, r.ahead = 0, 0
	return moved
}

// shrink releases n of the reserved bytes.
func (r *Reservation) shrink(n int64) {
	if n <= 0 || r.memory == nil {
		return
	}
	r.bytes -= n
	r.memory.pool.Give(&r.caller, n)
}

// settle releases what nothing uses.
func (r *Reservation) settle() {
	r.shrink(r.ahead)
	r.ahead = 0
}

// Abandon leaves the bytes to whoever may still read them, so that no other body gets
// their place: a Write that has failed may have kept them, as net/http does over HTTP/2
// when the client ends the stream.
func (b *Body) Abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocks, b.small = nil, nil
}

// Release releases all reserved bytes. It may be called again.
func (r *Reservation) Release() {
	r.shrink(r.bytes)
	r.ahead = 0
}

// scarce reports whether more than half of the memory, or of what the caller may hold, is
// in use.
func (r *Reservation) scarce() bool { return r.memory.pool.Scarce(&r.caller) }

// refusal returns why the share at the level does not suffice.
func (m *Memory) refusal(r *Reservation, level share.Level) *auth.Refusal {
	rule, c := m.pool.Rule(), &r.caller
	var why, holder string
	switch level {
	case share.Key:
		why, holder = fmt.Sprintf("the requests of this key hold its share of %s, %d bytes", m.name, rule.Key), c.Key
	case share.Address:
		why, holder = fmt.Sprintf("the requests from this address hold its share of %s, %d bytes", m.name, rule.Address), c.Address.String()
	case share.Tenant:
		why, holder = "the requests of this tenant hold its share of "+m.name, c.Tenant
	default:
		why = fmt.Sprintf("all %d bytes of %s are in use, or kept for tenants that hold little", rule.Limit, m.name)
		if top := m.Largest(1); len(top) == 1 {
			holder = top[0].Key
		}
	}
	return &auth.Refusal{
		Reason: auth.OverBudget, RetryAfter: time.Second,
		Log: fmt.Sprintf("%s; key %s asked, holder %s", why, c.Key, holder),
	}
}

// Largest returns the n keys that hold most, the Largest first.
func (m *Memory) Largest(n int) []KeyHolder {
	all := make([]KeyHolder, 0, n)
	m.pool.Keys(func(key string, bytes int64) { all = append(all, KeyHolder{Key: key, Bytes: bytes}) })
	slices.SortFunc(all, func(a, b KeyHolder) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// NewMemory returns a memory with the name of its option, and the parts of it that
// one key, and one address of a tenant, may hold.
func NewMemory(name string, limit int64, keyShare, addressShare float64) *Memory {
	return &Memory{name, share.NewPool(share.Rule{Limit: limit, Key: Share(limit, keyShare), Address: Share(limit, addressShare)})}
}

// Share returns a part of a number of bytes.
func Share(limit int64, share float64) int64 { return int64(float64(limit) * share) }

// Quick is the size up to which a body is one slice.
const Quick = firstRead

// firstRead is the most bytes that are reserved for a body before any byte of it
// has arrived.
const firstRead = 16 << 10

// blockSize is the size of the pooled blocks that hold a body larger than
// firstRead. A body grows by whole blocks, so it is not copied, and all memory
// that it holds is counted.
const blockSize = 64 << 10

// Rounded returns the bytes of memory that a body of the size takes.
func Rounded(size int64) int64 {
	if size <= firstRead {
		return size
	}
	return (size + blockSize - 1) / blockSize * blockSize
}

// quickRead is the most bytes of a body that is read into the smaller of the
// pooled slices.
const quickRead = 2 << 10

// The pools of the memory that holds bodies.
var (
	quickReads = sync.Pool{New: func() any { return new([quickRead]byte) }}
	firstReads = sync.Pool{New: func() any { return new([firstRead]byte) }}
	blocks     = sync.Pool{New: func() any { return new([blockSize]byte) }}
)

// A Body is a request body in memory. One of up to firstRead bytes is one
// slice, a larger one a list of blocks. Its memory is counted until release.
type Body struct {
	hold   Reservation
	size   int64
	pooled bool // see Receiver

	mu     sync.Mutex // guards what follows against a transport that still reads
	small  []byte
	blocks []*[blockSize]byte
}

// NewBody returns an empty body whose memory is counted by the reservation.
func NewBody(r Reservation) *Body { return &Body{hold: r} }

// Size returns the number of bytes.
func (b *Body) Size() int64 { return b.size }

// Begin makes room for a body of the size, or for its first bytes if the size is above
// [Quick]. It reserves the memory first.
func (b *Body) Begin(size int64) *auth.Refusal {
	size = min(size, firstRead)
	if b.pooled && size < quickRead {
		size = quickRead
	}
	if refusal := b.hold.Grow(size); refusal != nil {
		return refusal
	}
	switch {
	case size == firstRead:
		b.small = firstReads.Get().(*[firstRead]byte)[:0]
	case size == quickRead && b.pooled:
		b.small = quickReads.Get().(*[quickRead]byte)[:0]
	default:
		b.small = make([]byte, 0, size)
	}
	return nil
}

// dropSmall lets go of the slice. It goes back to its pool if nobody can read it
// any more.
func (b *Body) dropSmall(unread bool) {
	small := b.small
	b.small = nil
	switch {
	case !unread:
	case cap(small) == firstRead:
		firstReads.Put((*[firstRead]byte)(small[:firstRead]))
	case cap(small) == quickRead:
		quickReads.Put((*[quickRead]byte)(small[:quickRead]))
	}
}

// full reports whether there is no room left.
func (b *Body) full() bool {
	if b.blocks == nil {
		return len(b.small) == cap(b.small)
	}
	return b.size == int64(len(b.blocks))*blockSize
}

// room returns the free space for the next part of a body that is not full.
func (b *Body) room() []byte {
	if b.blocks == nil {
		return b.small[len(b.small):cap(b.small)]
	}
	return b.blocks[len(b.blocks)-1][b.size%blockSize:]
}

// filled notes that n bytes were read into the room.
func (b *Body) filled(n int) {
	b.size += int64(n)
	if b.blocks == nil {
		b.small = b.small[:len(b.small)+n]
	}
}

// addBlock makes a full body larger. It reserves the memory first.
func (b *Body) addBlock() *auth.Refusal {
	if refusal := b.hold.Grow(blockSize); refusal != nil {
		return refusal
	}
	block := blocks.Get().(*[blockSize]byte)
	if b.blocks == nil {
		copy(block[:], b.small)
		b.hold.shrink(int64(cap(b.small)))
		b.dropSmall(true)
	}
	b.blocks = append(b.blocks, block)
	return nil
}

// Settle releases what was reserved ahead for the body, which now does not grow.
func (b *Body) Settle() { b.hold.settle() }

// ReserveCopies counts n copies of the body until it is released.
func (b *Body) ReserveCopies(n int64) *auth.Refusal {
	if b == nil {
		return nil
	}
	return b.hold.Grow(n * b.size)
}

// Write adds a part. The error is an *auth.Refusal. Then the body is what it was
// before, and nothing can be added any more.
func (b *Body) Write(p []byte) error {
	before := b.size
	for len(p) > 0 {
		if b.full() {
			if refusal := b.addBlock(); refusal != nil {
				b.truncate(before)
				return refusal
			}
		}
		n := copy(b.room(), p)
		b.filled(n)
		p = p[n:]
	}
	return nil
}

// truncate forgets all but the first bytes. Nothing can be added afterwards.
func (b *Body) truncate(size int64) {
	b.size = size
	if b.blocks == nil {
		b.small = b.small[:size]
	}
}

// Contiguous returns the bytes of the body in one slice, which must not be
// changed. A body in blocks is copied; the caller counts that copy with
// ReserveCopies.
func (b *Body) Contiguous() []byte {
	if b == nil || b.blocks == nil && b.small == nil {
		return nil
	}
	if b.blocks == nil {
		return b.small
	}
	all := make([]byte, 0, b.size)
	for i := range b.blocks {
		all = append(all, b.blocks[i][:min(blockSize, b.size-int64(len(all)))]...)
	}
	return all
}

// OnePiece returns the bytes of a body that is in one piece, without copying
// them; nil if the body is empty or in several pieces. They are valid until
// release.
func (b *Body) OnePiece() []byte {
	switch len(b.blocks) {
	case 0:
		return b.small
	case 1:
		return b.blocks[0][:b.size]
	default:
		return nil
	}
}

// Hash returns the SHA-256 of the bytes of the body.
func (b *Body) Hash() [sha256.Size]byte {
	if len(b.blocks) <= 1 {
		return sha256.Sum256(b.OnePiece())
	}
	h := sha256.New()
	b.hashInto(h)
	return [sha256.Size]byte(h.Sum(nil))
}

// hashInto adds the body so far to a hash, without copying it.
func (b *Body) hashInto(h hash.Hash) {
	h.Write(b.small)
	for i, block := range b.blocks {
		h.Write(block[:min(blockSize, b.size-int64(i)*blockSize)])
	}
}

// Release releases the memory. It may be called again. A Reader that is
// still in use gets an error.
func (b *Body) Release() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, block := range b.blocks {
		blocks.Put(block)
	}
	b.blocks = nil
	b.dropSmall(b.pooled)
	b.hold.Release()
}

// errReleased is the error for a transport that reads a body after release.
var errReleased = errors.New("the request has been answered, and its body is gone")

// A Reader reads a body once. Close releases the body, because the issuer
// has it then.
type Reader struct {
	body *Body
	at   int64
}

// NewReader returns a reader from the first byte on.
func NewReader(b *Body) *Reader { return &Reader{body: b} }

// Body returns what is read.
func (r *Reader) Body() *Body { return r.body }

// Read reads the next part. It fails after the release of the body.
func (r *Reader) Read(p []byte) (int, error) {
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

// Close releases the body.
func (r *Reader) Close() error {
	r.body.Release()
	return nil
}

// Once returns a reader that releases the body at its end, because the issuer may take
// long to answer.
func (r *Reader) Once() io.Reader { return &lastReader{*r} }

type lastReader struct{ Reader }

func (r *lastReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.at == r.body.size {
		r.body.Release()
	}
	return n, err
}

// ForwardTo makes the held body the request's body.
func (b *Body) ForwardTo(r *http.Request) {
	if b == nil || b.blocks == nil && (!b.pooled || b.size == 0) {
		SetBody(r, b.Contiguous())
		return
	}
	SetBody(r, nil)
	r.ContentLength, r.Body = b.size, &Reader{body: b}
	r.Header.Set("Content-Length", strconv.FormatInt(b.size, 10))
}

// A Slice is a request's body in one piece.
type Slice struct {
	bytes.Reader
	bytes []byte
}

// Bytes returns all bytes, which must not be changed.
func (b *Slice) Bytes() []byte { return b.bytes }

func newSlice(body []byte) *Slice {
	b := &Slice{bytes: body}
	b.Reset(body)
	return b
}

// Close is part of io.Closer.
func (*Slice) Close() error { return nil }

// SetBody makes the bytes the request's body, with one correct Content-Length
// and without the client's framing. It leaves GetBody out, because net/http
// would use it to send a request a second time.
func SetBody(r *http.Request, body []byte) {
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	r.Trailer = nil
	r.GetBody = nil
	if len(body) == 0 {
		r.Body = http.NoBody
		r.Header.Del("Content-Length")
		return
	}
	r.Body = newSlice(body)
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
}
