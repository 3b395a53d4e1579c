package file

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"sync/atomic"
	"unsafe"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// An entry is one record of the journal. On disk, with all numbers in little
// endian:
//
//	 0  u16 length of the whole entry, a multiple of 8
//	 2  u16 the length, inverted
//	 4  u32 low half of the sequence number
//	 8  u8  kind, u8 number of buckets, u16 length of the key id
//	12  u32 secret version
//	16  i64 now, 24 i64 first, 32 i64 second, 40 i64 failures
//	48  16 bytes nonce digest
//	64  key id, u16 length and text of extra, the buckets
//	    (i64 used, at, unit, drain, u16 length and text of the name)
//	    zeros up to the last 8 bytes
//	-8  u32 CRC-32C of all before, 3 zeros, u8 0xA5
//
// The last 8 bytes are stored at once, after all others. An entry that lacks
// its last byte was being written when the process ended.
type entry struct {
	kind     entryKind
	version  int32 // of the secret of an accepted request
	now      int64 // Unix seconds
	first    int64 // accepted, nonce: X-Timestamp; locked: lock.At in ns; horizon: the timestamp forgotten
	second   int64 // accepted, nonce: end of the nonce's life, Unix seconds; locked: lock.Until in ns; horizon: the floor in ns
	failures int64 // the count after it; locked: lock.Failures; horizon: the oldest sequence number that is needed
	nonce    [16]byte
	key      string
	extra    string // locked: the revision before, a zero byte, the revision after; state: see appendUses
	buckets  []bucket
	ahead    int64 // microseconds to add to the levels of the buckets; see steadyClock
}

type entryKind uint8

const (
	entryAccepted entryKind = iota + 1 // a nonce, the levels charged, the count
	entryCounted                       // a failure count
	entryState                         // all of a key's state but its nonces
	entryLocked                        // a lock and the revision that it makes
	entryHorizon                       // how far nonces are forgotten
	entryNonce                         // a nonce that was accepted earlier
	entryEnd                           // nothing follows in this segment; first: a segmentEnd
	entryKinds
)

// A bucket is the level of a rate limit, and how fast it drains. Together they
// determine when it is empty and can be dropped.
type bucket struct {
	name  string
	level ratelimit.Level
	drain int64 // units per microsecond
}

// drained reports whether the bucket is empty at the moment, in microseconds.
func (b *bucket) drained(now int64) bool {
	return b.level.Used <= 0 || (b.drain > 0 && now-b.level.At > b.level.Used/b.drain)
}

const (
	entryHead     = 64
	entryTail     = 8
	maxEntry      = 0xfff8
	lastByte      = 0xA5
	bucketNumbers = 32
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errEntryTooLong = errors.New("the key id or the names of its buckets are too long for the journal")
)

// size returns the length of the entry on disk.
func (e *entry) size() int {
	n := entryHead + len(e.key) + 2 + len(e.extra) + entryTail
	for i := range e.buckets {
		n += bucketNumbers + 2 + len(e.buckets[i].name)
	}
	return (n + 7) &^ 7
}

// write encodes the entry into dst and returns the entry's checksum. dst must
// have the entry's size, be zero, and begin at an address that 8 divides.
func (e *entry) write(dst []byte, seq uint64) (sum uint32) {
	le := binary.LittleEndian
	le.PutUint16(dst, uint16(len(dst)))
	le.PutUint16(dst[2:], ^uint16(len(dst)))
	le.PutUint32(dst[4:], uint32(seq))
	dst[8], dst[9] = byte(e.kind), byte(len(e.buckets))
	le.PutUint16(dst[10:], uint16(len(e.key)))
	le.PutUint32(dst[12:], uint32(e.version))
	le.PutUint64(dst[16:], uint64(e.now))
	le.PutUint64(dst[24:], uint64(e.first))
	le.PutUint64(dst[32:], uint64(e.second))
	le.PutUint64(dst[40:], uint64(e.failures))
	copy(dst[48:entryHead], e.nonce[:])
	at := entryHead + copy(dst[entryHead:], e.key)
	at = putText(dst, at, e.extra)
	for i := range e.buckets {
		b := &e.buckets[i]
		le.PutUint64(dst[at:], uint64(b.level.Used))
		le.PutUint64(dst[at+8:], uint64(b.level.At+e.ahead))
		le.PutUint64(dst[at+16:], uint64(b.level.Unit))
		le.PutUint64(dst[at+24:], uint64(b.drain))
		at = putText(dst, at+bucketNumbers, b.name)
	}
	end := len(dst) - entryTail
	sum = crc32.Update(0, castagnoli, dst[:end])
	storeWord(dst[end:], uint64(sum)|lastByte<<56)
	return sum
}

func putText(dst []byte, at int, s string) int {
	binary.LittleEndian.PutUint16(dst[at:], uint16(len(s)))
	return at + 2 + copy(dst[at+2:], s)
}

// storeWord writes 8 bytes in little endian at once, after all writes before.
func storeWord(dst []byte, word uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], word)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&dst[0])), binary.NativeEndian.Uint64(b[:]))
}

// entryLength returns the length of the entry that begins b, or false when
// b begins with none.
func entryLength(b []byte) (int, bool) {
	if len(b) < 8 {
		return 0, false
	}
	n := binary.LittleEndian.Uint16(b)
	return int(n), n == ^binary.LittleEndian.Uint16(b[2:]) && n%8 == 0 && n >= entryHead+entryTail
}

// readEntry decodes the entry that fills b, and returns the low half of its
// sequence number. It returns false unless every byte is as it was written. The
// entry shares no memory with b.
func readEntry(b []byte) (e entry, seq uint32, ok bool) {
	n, ok := entryLength(b)
	if !ok || n != len(b) {
		return e, 0, false
	}
	le := binary.LittleEndian
	end := n - entryTail
	if le.Uint64(b[end:]) != uint64(crc32.Update(0, castagnoli, b[:end]))|lastByte<<56 {
		return e, 0, false
	}
	e = entry{
		kind:     entryKind(b[8]),
		version:  int32(le.Uint32(b[12:])),
		now:      int64(le.Uint64(b[16:])),
		first:    int64(le.Uint64(b[24:])),
		second:   int64(le.Uint64(b[32:])),
		failures: int64(le.Uint64(b[40:])),
		nonce:    [16]byte(b[48:64]),
	}
	if e.kind == 0 || e.kind >= entryKinds {
		return e, 0, false
	}
	rest := b[entryHead:end]
	keyLen := int(le.Uint16(b[10:]))
	if keyLen > len(rest) {
		return e, 0, false
	}
	e.key, rest = string(rest[:keyLen]), rest[keyLen:]
	if e.extra, rest, ok = takeText(rest); !ok {
		return e, 0, false
	}
	for range b[9] {
		if len(rest) < bucketNumbers {
			return e, 0, false
		}
		k := bucket{
			level: ratelimit.Level{Used: int64(le.Uint64(rest)), At: int64(le.Uint64(rest[8:])), Unit: int64(le.Uint64(rest[16:]))},
			drain: int64(le.Uint64(rest[24:])),
		}
		if k.name, rest, ok = takeText(rest[bucketNumbers:]); !ok {
			return e, 0, false
		}
		e.buckets = append(e.buckets, k)
	}
	return e, le.Uint32(b[4:]), len(rest) < 8
}

// entrySum returns the checksum of an entry that was read.
func entrySum(b []byte) uint32 { return binary.LittleEndian.Uint32(b[len(b)-entryTail:]) }

func takeText(b []byte) (text string, rest []byte, ok bool) {
	if len(b) < 2 {
		return "", nil, false
	}
	n := int(binary.LittleEndian.Uint16(b))
	if n > len(b)-2 {
		return "", nil, false
	}
	return string(b[2 : 2+n]), b[2+n:], true
}
