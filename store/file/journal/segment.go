package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/card-gateway/card-gateway/platform"
	"github.com/card-gateway/card-gateway/store"
)

// A Segment is one file of the journal: a header, then entries, then zeros. The
// file is made in advance in its full size, filled with zeros, with its disk
// blocks allocated, and mapped into memory. It becomes part of the journal when
// its header is written.
type Segment struct {
	ID        uint64 // rises from segment to segment
	LastStamp int64  // the latest timestamp of a nonce in it
	Shortened bool   // nonces that die later, and their timestamps, do not count

	path     string
	firstSeq uint64
	data     []byte // the mapping; nil once it is no longer written
	used     int

	opened    int64 // Unix seconds
	holdsMore bool  // than state carried over from older segments
	lastDeath int64 // until when it must be kept, Unix seconds
	longest   int64 // the longest life of a nonce that was accepted in it, seconds
}

// note updates the segment's fields for an entry that it holds.
func (s *Segment) note(e *Entry) {
	switch e.Kind {
	case KindAccepted:
		s.longest = max(s.longest, e.Second-e.Now)
		fallthrough
	case KindNonce:
		s.lastDeath, s.LastStamp = max(s.lastDeath, e.Second), max(s.LastStamp, e.First)
	case KindState:
		s.lastDeath = max(s.lastDeath, e.Now+carriedSeconds)
	}
	s.holdsMore = s.holdsMore || e.Kind < KindState || e.Kind == KindLocked
}

// carriedSeconds is how long a segment keeps state that was carried over, before
// that state is carried over again.
const carriedSeconds = 600

const (
	segmentMagic   = "CGJRNL\x00\x02" // the last byte is the version of the format
	segmentMagic1  = "CGJRNL\x00\x01"
	segmentHead    = 80
	segmentSuffix  = ".journal"
	minSegmentSize = 256 << 10
	maxSegmentSize = 16 << 20
)

func segmentName(id uint64) string { return fmt.Sprintf("%016x%s", id, segmentSuffix) }

// segmentID is the inverse of segmentName.
func segmentID(name string) (uint64, bool) {
	text, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(text) != 16 {
		return 0, false
	}
	id, err := strconv.ParseUint(text, 16, 64)
	return id, err == nil && segmentName(id) == name
}

func bootSum(boot string) [16]byte {
	sum := sha256.Sum256([]byte(boot))
	return [16]byte(sum[:16])
}

// newSegment makes the file of a segment, without a header yet.
func newSegment(dir string, id uint64, size int) (*Segment, error) {
	s := &Segment{ID: id, path: filepath.Join(dir, segmentName(id))}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s.data, err = platform.Map(f, size); err != nil {
		_ = os.Remove(s.path)
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return s, nil
}

// touch calls a function that writes into the mapping. When the disk fails, or
// somebody has cut the file, the kernel raises a fault. touch returns it as a
// store.ErrUnavailable.
func (s *Segment) touch(write func()) (err error) {
	defer func(before bool) {
		debug.SetPanicOnFault(before)
		if fault := recover(); fault != nil {
			if _, ok := fault.(interface{ Addr() uintptr }); !ok {
				panic(fault)
			}
			err = fmt.Errorf("%w: writing %s: the disk failed, or the file was cut (%v)", store.ErrUnavailable, s.path, fault)
		}
	}(debug.SetPanicOnFault(true))
	write()
	return nil
}

// begin writes the header; its first 8 bytes, the magic, come last.
func (s *Segment) begin(h segmentHeader) {
	h.id, h.size = s.ID, uint32(len(s.data))
	b := s.data[:segmentHead]
	h.put(b)
	storeWord(b, binary.LittleEndian.Uint64([]byte(segmentMagic)))
	s.used, s.firstSeq, s.opened = segmentHead, h.firstSeq, h.opened
}

// end writes the last entry of the segment: another segment follows, or the
// journal was closed. It uses no sequence number. If it cannot be written, a
// segment that follows shows the same.
func (s *Segment) end(seq uint64, how segmentEnd) {
	if s.data == nil || s.used+endSize > len(s.data) {
		return
	}
	e := Entry{Kind: kindEnd, First: int64(how)}
	if s.touch(func() { e.write(s.data[s.used:s.used+endSize], seq) }) == nil {
		s.used += endSize
	}
}

// A segmentEnd is the reason why a segment ends.
type segmentEnd int64

const (
	endMissing segmentEnd = iota // nothing says so: the process was killed
	endClosed
	endContinued
)

// endSize is the size of an kindEnd. Every segment keeps room for one.
const endSize = (entryHead + 2 + entryTail + 7) &^ 7

// seal unmaps the file and cuts off the part that the segment did not use.
func (s *Segment) seal() error {
	if s.data == nil {
		return nil
	}
	err := platform.Unmap(s.data)
	s.data = nil
	if err == nil {
		err = os.Truncate(s.path, int64(s.used))
	}
	return err
}

// discard removes the segment. It returns nil if the file is missing already.
func (s *Segment) discard() error {
	if s.data != nil {
		_ = platform.Unmap(s.data)
		s.data = nil
	}
	if err := os.Remove(s.path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

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
	Horizon
	boot [16]byte
	size uint32 // of the file in bytes, as it was made; 0 in version 1
}

// A Horizon is up to which timestamps nonces are no longer in the journal.
type Horizon struct {
	// Forgotten is the latest timestamp, in Unix seconds, of a nonce that was
	// dropped.
	Forgotten int64
	// Floor is the moment, in nanoseconds of Unix time, up to which nonces may have
	// been lost; 0: never.
	Floor int64
	// Note is the writer's own. It is in entries only.
	Note string
}

// put encodes all but the magic.
func (h *segmentHeader) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b[8:], h.id)
	le.PutUint64(b[16:], h.firstSeq)
	le.PutUint64(b[24:], h.oldestSeq)
	le.PutUint64(b[32:], uint64(h.opened))
	le.PutUint64(b[40:], uint64(h.Forgotten))
	le.PutUint64(b[48:], uint64(h.Floor))
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
	h.opened, h.Forgotten, h.Floor = int64(le.Uint64(b[32:])), int64(le.Uint64(b[40:])), int64(le.Uint64(b[48:]))
	h.boot = [16]byte(b[56:72])
	if string(b[:8]) != magic {
		return h, headerMended
	}
	return h, headerWhole
}
