package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/card-gateway/card-gateway/platform"
)

// A position identifies the end of a journal: the low half of the sequence number
// of its next entry, and the checksum of its last one. Two journals with the same
// beginning and different ends have different positions.
type position uint64

func positionAt(seq uint64, sum uint32) position {
	return position(uint64(uint32(seq)) | uint64(sum)<<32)
}

// entry returns the low half of the sequence number of the last entry, and sum its
// checksum.
func (p position) entry() uint32 { return uint32(p) - 1 }
func (p position) sum() uint32   { return uint32(p >> 32) }

// A mark is the high-water mark of a journal outside of the store's directory. It does
// not change when the journal loses its end, or when the directory is put back from
// an older copy. It also holds the floor, which would be put back with the journal.
// It can be in several small mapped files that say the same. Each holds the magic, the
// position, and the horizon of a segment's header, 8 bytes each in little endian; the
// magic is written last. A mark without files does nothing.
type mark struct {
	paths []string
	data  [][]byte
}

// marked is what a mark says.
type marked struct {
	position position
	Horizon
}

const (
	markMagic  = "CGMARK\x00\x02"
	markMagic1 = "CGMARK\x00\x01" // without forgotten and floor
	markSize   = 32
	markSize1  = 16
)

// readMark returns what a mark says; found is false when there is no mark, or none
// that was written to its end.
func readMark(path string) (m marked, found bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("reading the high-water mark of the journal: %w", err)
	}
	le := binary.LittleEndian
	switch {
	case len(b) == markSize && string(b[:8]) == markMagic:
		m.Forgotten, m.Floor = int64(le.Uint64(b[16:])), int64(le.Uint64(b[24:]))
	case len(b) != markSize1 || string(b[:8]) != markMagic1:
		return m, false, nil
	}
	m.position = position(le.Uint64(b[8:]))
	return m, true, nil
}

// newMark makes a new mark, in place of an earlier one.
func newMark(paths []string, is marked) (mark, error) {
	m := mark{paths: paths}
	for _, path := range paths {
		err := os.Remove(path)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			err = m.open(path)
		}
		if err != nil {
			return mark{}, errors.Join(fmt.Errorf("making the high-water mark of the journal, in the runtime directory: %w", err), m.close())
		}
	}
	m.set(is.position)
	m.setHorizon(is.Horizon)
	for _, data := range m.data {
		storeWord(data, binary.LittleEndian.Uint64([]byte(markMagic)))
	}
	return m, nil
}

func (m *mark) open(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := platform.Map(f, markSize)
	if err == nil {
		m.data = append(m.data, data)
	}
	return err
}

// set writes the position, at once: half of one would be another. A store to memory is
// enough: the kernel keeps all stores of a killed process, in their order.
func (m *mark) set(p position) {
	for _, data := range m.data {
		storeWord(data[8:], uint64(p))
	}
}

// setHorizon writes what must not be put back with the journal.
func (m *mark) setHorizon(h Horizon) {
	for _, data := range m.data {
		storeWord(data[16:], uint64(h.Forgotten))
		storeWord(data[24:], uint64(h.Floor))
	}
}

// close ends the mark; the files stay.
func (m *mark) close() (err error) {
	for _, data := range m.data {
		err = errors.Join(err, platform.Unmap(data))
	}
	m.data = nil
	return err
}

// loseMark stops the use of a mark that cannot be written any more. The files that
// are left will not fit the journal at the next start, so that the floor rises
// then.
func (j *Journal) loseMark(cause error) {
	j.opt.Problem(fmt.Errorf("the high-water mark %s cannot be written, the next start raises the replay floor: %w", strings.Join(j.mark.paths, " or "), cause))
	for _, path := range j.mark.paths {
		_ = os.Remove(path)
	}
	_ = j.mark.close()
	j.mark = mark{}
}

// CheckMark reads the mark at the path. It returns the reason why the mark does not
// fit the journal that was read, or "" if it fits. A mark that is one entry behind
// fits, because a process can be killed after it wrote an entry and before it set the
// mark. The horizon in the mark holds in any case.
func (c *Contents) CheckMark(path string) (why string, h Horizon, err error) {
	m, found, err := readMark(path)
	switch {
	case err != nil, !found && len(c.Segments) == 0, found && (m.position == c.position || m.position == c.before):
		return "", m.Horizon, err
	case !found:
		return "the high-water mark " + path + " is missing", m.Horizon, nil
	default:
		return fmt.Sprintf("the journal does not end where the high-water mark %s says, at entry %d (%08x), but at %d (%08x)",
			path, m.position.entry(), m.position.sum(), c.position.entry(), c.position.sum()), m.Horizon, nil
	}
}
