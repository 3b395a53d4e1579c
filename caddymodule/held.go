package caddymodule

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// A bodyMemory hands out the memory in which bodies are held. It is bounded,
// and no key and no address gets more of it than a share, so that nobody can
// take what all need.
type bodyMemory struct {
	name         string // the option that bounds it, for texts
	limit        int64  // bytes, in all
	keyShare     int64  // bytes that the requests of one key may hold
	addressShare int64  // bytes that the requests from one address may hold

	used      atomic.Int64
	keys      holders[string]
	addresses holders[netip.Prefix]
}

// A reservation is what one body holds of the memory. It belongs to one
// goroutine at a time.
type reservation struct {
	memory  *bodyMemory
	key     string       // id of the key
	address netip.Prefix // see holderAddress
	bytes   int64
}

// holderAddress returns the holder of a client's address. A client with an IPv6
// address usually has all of its /64, so a /64 is one holder. All unknown
// addresses are one holder, too.
func holderAddress(client netip.Addr) netip.Prefix {
	client = client.Unmap()
	bits := client.BitLen()
	if client.Is6() {
		bits = 64
	}
	prefix, _ := client.WithZone("").Prefix(bits)
	return prefix
}

// grow reserves n more bytes. The refusal is OverBudget. Its log text names the
// key or address whose share is used up, or states that all memory is.
func (r *reservation) grow(n int64) *auth.Refusal {
	m := r.memory
	if m == nil { // not counted
		return nil
	}
	if m.used.Add(n) > m.limit {
		m.used.Add(-n)
		return m.refusal(r, "all "+fmt.Sprint(m.limit)+" bytes of "+m.name+" are in use", "")
	}
	if !m.keys.take(r.key, n, m.keyShare) {
		m.used.Add(-n)
		return m.refusal(r, fmt.Sprintf("the requests of this key hold its share of %s, %d bytes", m.name, m.keyShare), r.key)
	}
	if !m.addresses.take(r.address, n, m.addressShare) {
		m.keys.give(r.key, n)
		m.used.Add(-n)
		return m.refusal(r, fmt.Sprintf("the requests from this address hold its share of %s, %d bytes", m.name, m.addressShare), r.address.String())
	}
	r.bytes += n
	return nil
}

// shrink releases n of the reserved bytes.
func (r *reservation) shrink(n int64) {
	if n <= 0 || r.memory == nil {
		return
	}
	r.bytes -= n
	r.memory.addresses.give(r.address, n)
	r.memory.keys.give(r.key, n)
	r.memory.used.Add(-n)
}

// release releases all reserved bytes. It may be called again.
func (r *reservation) release() {
	r.shrink(r.bytes)
}

// scarce reports whether more than half of the memory, or of the share of the
// reservation's key or address, is in use.
func (r *reservation) scarce() bool {
	m := r.memory
	used := m.used.Load()
	if used <= min(m.keyShare, m.addressShare)/2 {
		return false // nobody can hold more than all
	}
	return used > m.limit/2 || m.keys.held(r.key) > m.keyShare/2 || m.addresses.held(r.address) > m.addressShare/2
}

func (m *bodyMemory) refusal(r *reservation, why, holder string) *auth.Refusal {
	if holder == "" {
		if top := m.largest(1); len(top) == 1 {
			holder = top[0].Key
		}
	}
	return &auth.Refusal{
		Reason: auth.OverBudget, RetryAfter: time.Second,
		Log: fmt.Sprintf("%s; key %s asked, holder %s", why, r.key, holder),
	}
}

// largest returns the n keys that hold most, the largest first.
func (m *bodyMemory) largest(n int) []keyadmin.BodyHolder {
	all := make([]keyadmin.BodyHolder, 0, n)
	m.keys.each(func(key string, bytes int64) { all = append(all, keyadmin.BodyHolder{Key: key, Bytes: bytes}) })
	slices.SortFunc(all, func(a, b keyadmin.BodyHolder) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// holders counts bytes by holder, in shards so that requests seldom wait for
// each other.
type holders[H comparable] struct {
	seed   maphash.Seed
	shards [32]holderShard[H]
}

type holderShard[H comparable] struct {
	mu    sync.Mutex
	bytes map[H]int64
}

func newBodyMemory(name string, limit int64, keyShare, addressShare float64) *bodyMemory {
	m := &bodyMemory{name: name, limit: limit, keyShare: shareOf(limit, keyShare), addressShare: shareOf(limit, addressShare)}
	m.keys.seed, m.addresses.seed = maphash.MakeSeed(), maphash.MakeSeed()
	return m
}

func shareOf(limit int64, share float64) int64 { return int64(float64(limit) * share) }

func (h *holders[H]) shard(holder H) *holderShard[H] {
	return &h.shards[maphash.Comparable(h.seed, holder)%uint64(len(h.shards))]
}

// take adds n bytes to those of the holder. It returns false, and adds nothing,
// if the holder would then have more than its share.
func (h *holders[H]) take(holder H, n, share int64) bool {
	s := h.shard(holder)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes[holder]+n > share {
		return false
	}
	if s.bytes == nil {
		s.bytes = make(map[H]int64)
	}
	s.bytes[holder] += n
	return true
}

func (h *holders[H]) give(holder H, n int64) {
	s := h.shard(holder)
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := s.bytes[holder] - n; left > 0 {
		s.bytes[holder] = left
	} else {
		delete(s.bytes, holder)
	}
}

func (h *holders[H]) held(holder H) int64 {
	s := h.shard(holder)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes[holder]
}

// each calls f with all holders and what they hold.
func (h *holders[H]) each(f func(holder H, bytes int64)) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for holder, bytes := range s.bytes {
			f(holder, bytes)
		}
		s.mu.Unlock()
	}
}

// firstRead is the most bytes that are reserved for a body before any byte of it
// has arrived.
const firstRead = 16 << 10

// blockSize is the size of the pooled blocks that hold a body larger than
// firstRead. A body grows by whole blocks, so it is not copied, and all memory
// that it holds is counted.
const blockSize = 64 << 10

// roundedToBlocks returns the bytes of memory that a body of the size takes.
func roundedToBlocks(size int64) int64 {
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

// A heldBody is a request body in memory. One of up to firstRead bytes is one
// slice, a larger one a list of blocks. Its memory is counted until release.
type heldBody struct {
	hold   reservation
	size   int64
	pooled bool // see bodyReader

	mu     sync.Mutex // guards what follows against a transport that still reads
	small  []byte
	blocks []*[blockSize]byte
}

// begin makes room for the first bytes of a body, at most firstRead. It reserves
// the memory first.
func (b *heldBody) begin(size int64) *auth.Refusal {
	if b.pooled && size < quickRead {
		size = quickRead
	}
	if refusal := b.hold.grow(size); refusal != nil {
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
func (b *heldBody) dropSmall(unread bool) {
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
func (b *heldBody) full() bool {
	if b.blocks == nil {
		return len(b.small) == cap(b.small)
	}
	return b.size == int64(len(b.blocks))*blockSize
}

// room returns the free space for the next part of a body that is not full.
func (b *heldBody) room() []byte {
	if b.blocks == nil {
		return b.small[len(b.small):cap(b.small)]
	}
	return b.blocks[len(b.blocks)-1][b.size%blockSize:]
}

// filled notes that n bytes were read into the room.
func (b *heldBody) filled(n int) {
	b.size += int64(n)
	if b.blocks == nil {
		b.small = b.small[:len(b.small)+n]
	}
}

// addBlock makes a full body larger. It reserves the memory first.
func (b *heldBody) addBlock() *auth.Refusal {
	if refusal := b.hold.grow(blockSize); refusal != nil {
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

// reserveCopies counts n copies of the body until it is released.
func (b *heldBody) reserveCopies(n int64) *auth.Refusal {
	if b == nil {
		return nil
	}
	return b.hold.grow(n * b.size)
}

// write adds a part of an answer. The error is an *auth.Refusal.
func (b *heldBody) write(p []byte) error {
	for len(p) > 0 {
		if b.full() {
			if refusal := b.addBlock(); refusal != nil {
				return refusal
			}
		}
		n := copy(b.room(), p)
		b.filled(n)
		p = p[n:]
	}
	return nil
}

// keep adds a part of an answer, which may have at most maxAnswer bytes. On failure
// it holds what it held before.
func (b *heldBody) keep(p []byte) error {
	before := b.size
	if before+int64(len(p)) > maxAnswer {
		return errAnswerTooLarge
	}
	err := b.write(p)
	if err != nil {
		b.truncate(before)
	}
	return err
}

// truncate forgets all but the first bytes. Nothing can be added afterwards.
func (b *heldBody) truncate(size int64) {
	b.size = size
	if b.blocks == nil {
		b.small = b.small[:size]
	}
}

// contiguous returns the bytes of the body in one slice, which must not be
// changed. A body in blocks is copied; the caller counts that copy with
// reserveCopies.
func (b *heldBody) contiguous() []byte {
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

// onePiece returns the bytes of a body that is in one piece, without copying
// them; nil if the body is empty or in several pieces. They are valid until
// release.
func (b *heldBody) onePiece() []byte {
	switch len(b.blocks) {
	case 0:
		return b.small
	case 1:
		return b.blocks[0][:b.size]
	default:
		return nil
	}
}

// hash returns the SHA-256 of the bytes of the body.
func (b *heldBody) hash() [sha256.Size]byte {
	if len(b.blocks) <= 1 {
		return sha256.Sum256(b.onePiece())
	}
	h := sha256.New()
	b.hashInto(h)
	return [sha256.Size]byte(h.Sum(nil))
}

// hashInto adds the body so far to a hash, without copying it.
func (b *heldBody) hashInto(h hash.Hash) {
	h.Write(b.small)
	for i, block := range b.blocks {
		h.Write(block[:min(blockSize, b.size-int64(i)*blockSize)])
	}
}

// release releases the memory. It may be called again. A heldReader that is
// still in use gets an error.
func (b *heldBody) release() {
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
	b.hold.release()
}

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
