package caddymodule

import (
	"crypto/sha256"
	"hash"
	"sync"

	"github.com/card-gateway/card-gateway/auth"
)

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
