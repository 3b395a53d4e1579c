package journal

import (
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"
	"unsafe"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// An Entry is one record of the journal. On disk, with all numbers in little
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
type Entry struct {
	Kind     Kind
	Version  int32 // of the secret of an accepted request
	Now      int64 // Unix seconds
	First    int64 // accepted, nonce: X-Timestamp; horizon: [Horizon.Forgotten]; else the writer's own
	Second   int64 // accepted, nonce: end of the nonce's life, Unix seconds; horizon: [Horizon.Floor]; else the writer's own
	Failures int64 // the count after it; horizon: the oldest sequence number that is needed; else the writer's own
	Nonce    [16]byte
	Key      string
	Extra    string // the writer's own; horizon: [Horizon.Note]
	Buckets  []Bucket
	Ahead    int64 // microseconds to add to the times of the levels when they are written
}

// A Kind is what an entry records.
type Kind uint8

// The kinds of entries.
const (
	KindAccepted Kind = iota + 1 // a nonce, the levels charged, the count
	KindCounted                  // a failure count
	KindState                    // all of a key's state but its nonces
	KindLocked                   // a lock and the revision that it makes
	KindHorizon                  // how far nonces are forgotten
	KindNonce                    // a nonce that was accepted earlier
	kindEnd                      // nothing follows in this segment; first: a segmentEnd
	kinds
)

// A Bucket is the level of a rate limit, and how fast it drains. Together they
// determine when it is empty and can be dropped.
type Bucket struct {
	Name  string
	Level ratelimit.Level
	Drain int64 // units per microsecond
}

const (
	entryHead     = 64
	entryTail     = 8
	maxEntry      = 0xfff8
	lastByte      = 0xA5
	bucketNumbers = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// size returns the length of the entry on disk.
func (e *Entry) size() int {
	n := entryHead + len(e.Key) + 2 + len(e.Extra) + entryTail
	for i := range e.Buckets {
		n += bucketNumbers + 2 + len(e.Buckets[i].Name)
	}
	return (n + 7) &^ 7
}

// write encodes the entry into dst and returns the entry's checksum. dst must
// have the entry's size, be zero, and begin at an address that 8 divides.
func (e *Entry) write(dst []byte, seq uint64) (sum uint32) {
	le := binary.LittleEndian
	le.PutUint16(dst, uint16(len(dst)))
	le.PutUint16(dst[2:], ^uint16(len(dst)))
	le.PutUint32(dst[4:], uint32(seq))
	dst[8], dst[9] = byte(e.Kind), byte(len(e.Buckets))
	le.PutUint16(dst[10:], uint16(len(e.Key)))
	le.PutUint32(dst[12:], uint32(e.Version))
	le.PutUint64(dst[16:], uint64(e.Now))
	le.PutUint64(dst[24:], uint64(e.First))
	le.PutUint64(dst[32:], uint64(e.Second))
	le.PutUint64(dst[40:], uint64(e.Failures))
	copy(dst[48:entryHead], e.Nonce[:])
	at := entryHead + copy(dst[entryHead:], e.Key)
	at = putText(dst, at, e.Extra)
	for i := range e.Buckets {
		b := &e.Buckets[i]
		le.PutUint64(dst[at:], uint64(b.Level.Used))
		le.PutUint64(dst[at+8:], uint64(b.Level.At+e.Ahead))
		le.PutUint64(dst[at+16:], uint64(b.Level.Unit))
		le.PutUint64(dst[at+24:], uint64(b.Drain))
		at = putText(dst, at+bucketNumbers, b.Name)
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
func readEntry(b []byte) (e Entry, seq uint32, ok bool) {
	n, ok := entryLength(b)
	if !ok || n != len(b) {
		return e, 0, false
	}
	le := binary.LittleEndian
	end := n - entryTail
	if le.Uint64(b[end:]) != uint64(crc32.Update(0, castagnoli, b[:end]))|lastByte<<56 {
		return e, 0, false
	}
	e = Entry{
		Kind:     Kind(b[8]),
		Version:  int32(le.Uint32(b[12:])),
		Now:      int64(le.Uint64(b[16:])),
		First:    int64(le.Uint64(b[24:])),
		Second:   int64(le.Uint64(b[32:])),
		Failures: int64(le.Uint64(b[40:])),
		Nonce:    [16]byte(b[48:64]),
	}
	if e.Kind == 0 || e.Kind >= kinds {
		return e, 0, false
	}
	rest := b[entryHead:end]
	keyLen := int(le.Uint16(b[10:]))
	if keyLen > len(rest) {
		return e, 0, false
	}
	e.Key, rest = string(rest[:keyLen]), rest[keyLen:]
	if e.Extra, rest, ok = takeText(rest); !ok {
		return e, 0, false
	}
	for range b[9] {
		if len(rest) < bucketNumbers {
			return e, 0, false
		}
		k := Bucket{
			Level: ratelimit.Level{Used: int64(le.Uint64(rest)), At: int64(le.Uint64(rest[8:])), Unit: int64(le.Uint64(rest[16:]))},
			Drain: int64(le.Uint64(rest[24:])),
		}
		if k.Name, rest, ok = takeText(rest[bucketNumbers:]); !ok {
			return e, 0, false
		}
		e.Buckets = append(e.Buckets, k)
	}
	return e, le.Uint32(b[4:]), len(rest) < 8
}

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
