package file

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
// There are two small mapped files: one is found by the directory, the other by the
// store's identity, which a copy of the directory has too. Each holds the magic, the
// position, and the fields forgotten and floor of a segment's header, 8 bytes each in
// little endian; the magic is written last. A mark without files does nothing.
type mark struct {
	paths []string
	data  [][]byte
}

// marked is what a mark says.
type marked struct {
	position         position
	forgotten, floor int64
}

const (
	markMagic  = "CGMARK\x00\x02"
	markMagic1 = "CGMARK\x00\x01" // without forgotten and floor
	markSize   = 32
	markSize1  = 16
	markPrefix = "card-gateway-"
	markSuffix = ".mark"
)

// DefaultRuntimeDir returns a directory for Options.RuntimeDir from the
// environment: the first of RUNTIME_DIRECTORY, which systemd sets, and
// XDG_RUNTIME_DIR that is a directory in which this process may write, else "".
func DefaultRuntimeDir() string {
	first, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	for _, dir := range []string{first, os.Getenv("XDG_RUNTIME_DIR")} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && mayWrite(dir) {
			return dir
		}
	}
	return ""
}

// markPath is where the mark of a store's directory is.
func markPath(runtimeDir, storeDir string) string {
	sum := sha256.Sum256([]byte(storeDir))
	return filepath.Join(runtimeDir, markPrefix+hex.EncodeToString(sum[:8])+markSuffix)
}

// identityMarkPath is where the mark of a store with the identity is.
func identityMarkPath(runtimeDir, id string) string {
	return filepath.Join(runtimeDir, markPrefix+id+markSuffix)
}

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
		m.forgotten, m.floor = int64(le.Uint64(b[16:])), int64(le.Uint64(b[24:]))
	case len(b) != markSize1 || string(b[:8]) != markMagic1:
		return m, false, nil
	}
	m.position = position(le.Uint64(b[8:]))
	return m, true, nil
}

// newMark makes a new mark, in place of an earlier one.
func newMark(paths []string, is marked) (mark, error) {
	m := mark{paths: paths}
	dir := filepath.Dir(paths[0])
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = checkDirectory(dir)
	}
	for _, path := range paths {
		if err == nil {
			err = os.Remove(path)
		}
		if err == nil || errors.Is(err, os.ErrNotExist) {
			err = m.open(path)
		}
	}
	if err != nil {
		return mark{}, errors.Join(fmt.Errorf("making the high-water mark of the journal, in the runtime directory: %w", err), m.close())
	}
	m.set(is.position)
	m.setHorizon(is.forgotten, is.floor)
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
	if err := reserve(f, markSize); err != nil {
		return err
	}
	data, err := mapFile(f, markSize)
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
func (m *mark) setHorizon(forgotten, floor int64) {
	for _, data := range m.data {
		storeWord(data[16:], uint64(forgotten))
		storeWord(data[24:], uint64(floor))
	}
}

// close ends the mark; the files stay.
func (m *mark) close() (err error) {
	for _, data := range m.data {
		err = errors.Join(err, unmap(data))
	}
	m.data = nil
	return err
}

// loseMark stops the use of a mark that cannot be written any more. The files that
// are left will not fit the journal at the next start, so that the floor rises
// then.
func (j *journal) loseMark(cause error) {
	j.problem(fmt.Errorf("the high-water mark %s cannot be written, the next start raises the replay floor: %w", strings.Join(j.mark.paths, " or "), cause))
	for _, path := range j.mark.paths {
		_ = os.Remove(path)
	}
	_ = j.mark.close()
	j.mark = mark{}
}

// markFault returns the reason why the mark at the path does not fit the journal
// that was read, or "" if it fits. A mark that is one entry behind fits, because
// a process can be killed after it wrote an entry and before it set the mark. What
// the mark says of the floor holds in any case.
func (st *state) markFault(r *replayed, path string) (why string, err error) {
	m, found, err := readMark(path)
	if err != nil {
		return "", err
	}
	st.forget(clampSeconds(m.forgotten))
	st.raiseFloor(m.floor)
	switch {
	case !found && len(r.segments) == 0, found && (m.position == r.position || m.position == r.before):
		return "", nil
	case !found:
		return "the high-water mark " + path + " is missing", nil
	default:
		return fmt.Sprintf("the journal does not end where the high-water mark %s says, at entry %d (%08x), but at %d (%08x)",
			path, m.position.entry(), m.position.sum(), r.position.entry(), r.position.sum()), nil
	}
}
