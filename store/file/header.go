package file

import (
	"encoding/binary"
	"hash/crc32"
)

// A segmentHeader holds the place of a segment in the journal, and state that is
// no longer read from older segments. On disk: the magic, then the fields in
// their order, 8 bytes each except for 16 of boot and 4 of size, then the
// CRC-32C of all these bytes as u32. Later versions must keep this length and
// this checksum, so that a reader can distinguish a damaged version byte from
// another version.
//
// Version 1 had no size. In its place was the CRC-32C of the fields without the
// magic, followed by four zeros.
type segmentHeader struct {
	id        uint64
	firstSeq  uint64 // sequence number of its first entry
	oldestSeq uint64 // of the first entry in the oldest segment that is needed
	opened    int64  // Unix seconds
	forgotten int64  // see state.forgotten
	floor     int64  // see state.floor
	boot      [16]byte
	size      uint32 // of the file in bytes, as it was made; 0 in version 1
}

// put encodes all but the magic.
func (h *segmentHeader) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b[8:], h.id)
	le.PutUint64(b[16:], h.firstSeq)
	le.PutUint64(b[24:], h.oldestSeq)
	le.PutUint64(b[32:], uint64(h.opened))
	le.PutUint64(b[40:], uint64(h.forgotten))
	le.PutUint64(b[48:], uint64(h.floor))
	copy(b[56:72], h.boot[:])
	le.PutUint32(b[72:], h.size)
	sum := crc32.Update(0, castagnoli, []byte(segmentMagic))
	le.PutUint32(b[76:], crc32.Update(sum, castagnoli, b[8:76]))
}

// A headerState is the result of reading a segment's header.
type headerState int

const (
	headerDamaged headerState = iota // the fields are not known
	headerForeign                    // whole, and of a version that is not known here
	headerMended                     // only the magic was damaged
	headerWhole
)

// readSegmentHeader decodes a header.
func readSegmentHeader(b []byte) (h segmentHeader, state headerState) {
	if len(b) < segmentHead {
		return h, headerDamaged
	}
	le := binary.LittleEndian
	fields := crc32.Update(crc32.Update(0, castagnoli, []byte(segmentMagic)), castagnoli, b[8:76])
	magic := segmentMagic
	switch {
	case le.Uint32(b[76:]) == fields:
		h.size = le.Uint32(b[72:])
	case le.Uint64(b[72:]) == uint64(crc32.Update(0, castagnoli, b[8:72])):
		magic = segmentMagic1
	case string(b[:7]) == segmentMagic[:7] && le.Uint32(b[76:]) == crc32.Update(0, castagnoli, b[:76]):
		return h, headerForeign
	default:
		return h, headerDamaged
	}
	h.id, h.firstSeq, h.oldestSeq = le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])
	h.opened, h.forgotten, h.floor = int64(le.Uint64(b[32:])), int64(le.Uint64(b[40:])), int64(le.Uint64(b[48:]))
	h.boot = [16]byte(b[56:72])
	if string(b[:8]) != magic {
		return h, headerMended
	}
	return h, headerWhole
}
