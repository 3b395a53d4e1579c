package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Contents is the result of reading a journal at a start.
type Contents struct {
	Segments []*Segment // oldest first; the next segment is not among them
	Seen     int64      // the highest time in it, Unix seconds
	Damage   []string   // what is missing or wrong; empty: nothing is

	dir      string
	apply    func(*Entry)
	seq      uint64 // of the next entry
	oldest   uint64 // of the oldest entry that is needed
	broken   bool   // the last thing read was damaged: what follows may have any number
	nextID   uint64
	boot     [16]byte   // of the newest segment
	ended    segmentEnd // how the newest segment ended
	position position   // after the last entry
	before   position   // after the last entry but one
}

// Read reads the journal in the directory, and calls apply for each entry in order.
// The horizon of a segment's header is applied as an entry of its own. Read skips
// damaged parts and lists them in the result. An error means that the journal must
// not be used.
func Read(dir string, apply func(*Entry)) (*Contents, error) {
	files, err := os.ReadDir(dir) // sorted, so by their ids
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	c := &Contents{dir: dir, apply: apply, seq: 1, nextID: 1, position: positionAt(1, 0)}
	for _, f := range files {
		id, ok := segmentID(f.Name())
		if !ok {
			continue
		}
		c.nextID = id + 1
		if err := c.readSegment(id); err != nil {
			return nil, fmt.Errorf("reading the journal: %w", err)
		}
	}
	if n := len(c.Segments); n > 0 && len(c.Damage) == 0 {
		if c.Segments[0].firstSeq > c.oldest {
			c.note(c.Segments[0], "entries before it are missing")
		}
		if c.ended == endContinued {
			c.note(c.Segments[n-1], "the segment after it is missing")
		}
	}
	return c, nil
}

// SameBoot reports whether the journal was written in the run of the machine.
func (c *Contents) SameBoot(boot string) bool { return boot != "" && c.boot == bootSum(boot) }

// Continue begins the next segment, whose header holds the horizon. Only then it
// makes a mark that fits the journal again.
func (c *Contents) Continue(opt Options, now int64) (*Journal, error) {
	j := &Journal{
		Wake: make(chan struct{}, 1), opt: opt, dir: c.dir, boot: bootSum(opt.Boot),
		sealed: c.Segments, seq: c.seq, nextID: c.nextID, size: minSegmentSize,
	}
	err := j.prepareLocked()
	if err == nil {
		err = j.turnLocked(now)
	}
	if err == nil && len(opt.Marks) > 0 {
		j.mark, err = newMark(opt.Marks, marked{c.position, opt.Horizon()})
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (c *Contents) readSegment(id uint64) error {
	s := &Segment{ID: id, path: filepath.Join(c.dir, segmentName(id))}
	if info, err := os.Lstat(s.path); err == nil && !info.Mode().IsRegular() {
		c.note(s, "it is not a file")
		c.broken = true
		return os.Rename(s.path, s.path+".aside")
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	if blank(b[:min(8, len(b))]) && blank(b[min(segmentHead, len(b)):]) {
		return os.Remove(s.path) // made in advance, never begun
	}
	h, header := readSegmentHeader(b)
	switch header {
	case headerForeign:
		return fmt.Errorf("%s has format %d, this version reads format %d; use the version that wrote it", s.path, b[7], segmentMagic[7])
	case headerDamaged:
		c.note(s, "its header is damaged")
		c.broken = true
	case headerMended:
		c.note(s, "its first bytes are damaged")
		fallthrough
	default:
		c.begun(s, &h)
	}
	c.ended = endMissing
	c.readEntries(s, b)
	if len(b) < int(h.size) && c.ended == endMissing {
		c.note(s, "it is shorter than it was made")
	}
	c.Segments = append(c.Segments, s)
	return nil
}

// begun takes up the fields of the next segment's header.
func (c *Contents) begun(s *Segment, h *segmentHeader) {
	switch {
	case h.id != s.ID:
		c.note(s, fmt.Sprintf("it is the copy of segment %d", h.id))
	case h.firstSeq != c.seq && len(c.Segments) > 0 && !c.broken:
		c.note(s, "entries before it are missing")
	}
	c.broken = false
	s.firstSeq, c.oldest = h.firstSeq, max(c.oldest, h.oldestSeq)
	c.seq, c.boot, c.Seen = h.firstSeq, h.boot, max(c.Seen, h.opened)
	c.apply(&Entry{Kind: KindHorizon, Now: h.opened, First: h.Forgotten, Second: h.Floor})
}

func blank(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// readEntries applies the entries of a segment. An incomplete entry at the end
// is not damage: the process ended while it was written, and its request was
// never answered.
func (c *Contents) readEntries(s *Segment, b []byte) {
	s.used = len(b)
	written := len(bytes.TrimRight(b, "\x00"))
	for at := segmentHead; at < written; {
		n, ok := entryLength(b[at:])
		if ok && at+n <= len(b) {
			if e, seq, ok := readEntry(b[at : at+n]); ok {
				if seq != uint32(c.seq) && !c.broken {
					c.note(s, fmt.Sprintf("entries before byte %d are missing", at))
				}
				c.broken = false
				c.seq += uint64(seq - uint32(c.seq))
				c.take(s, &e)
				if e.Kind != kindEnd {
					c.before, c.position = c.position, positionAt(c.seq, binary.LittleEndian.Uint32(b[at+n-entryTail:]))
				}
				at += n
				continue
			}
		}
		if torn := !ok && written < at+8 || ok && written < at+n; torn {
			return
		}
		c.note(s, fmt.Sprintf("it is damaged at byte %d", at))
		c.broken = true
		at = nextEntry(b, at+8)
	}
}

// take applies an entry that was read.
func (c *Contents) take(s *Segment, e *Entry) {
	if e.Kind == kindEnd {
		c.ended = segmentEnd(e.First)
		return
	}
	c.seq++
	c.ended = endMissing
	if e.Kind == KindHorizon {
		c.oldest = max(c.oldest, uint64(e.Failures))
	}
	c.Seen = max(c.Seen, e.Now)
	s.note(e)
	c.apply(e)
}

// nextEntry returns where the next intact entry begins, or the end of b.
func nextEntry(b []byte, at int) int {
	for ; at+8 <= len(b); at += 8 {
		if n, ok := entryLength(b[at:]); ok && at+n <= len(b) {
			if _, _, ok := readEntry(b[at : at+n]); ok {
				return at
			}
		}
	}
	return len(b)
}

func (c *Contents) note(s *Segment, what string) {
	c.Damage = append(c.Damage, fmt.Sprintf("%s: %s", s.path, what))
}
