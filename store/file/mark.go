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

// A mark is the high-water mark of a journal: a small mapped file outside of
// the store's directory that holds the journal's position. It does not change
// when the journal loses its end, or when the directory is put back from an older
// copy. It holds the magic and the position, 8 bytes each in little endian; the
// magic is written last. A nil mark does nothing.
type mark struct {
	path string
	data []byte
}

const (
	markMagic  = "CGMARK\x00\x01"
	markSize   = 16
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
	return filepath.Join(runtimeDir, "card-gateway-"+hex.EncodeToString(sum[:8])+markSuffix)
}

// readMark returns the position that a mark holds; found is false when there is
// no mark, or none that was written to its end.
func readMark(path string) (p position, found bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("reading the high-water mark of the journal: %w", err)
	}
	if len(b) != markSize || string(b[:8]) != markMagic {
		return 0, false, nil
	}
	return position(binary.LittleEndian.Uint64(b[8:])), true, nil
}

// newMark makes a new mark with a position, in place of an earlier one.
func newMark(path string, p position) (*mark, error) {
	m := &mark{path: path}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = checkDirectory(filepath.Dir(path))
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = m.open()
	}
	if err != nil {
		return nil, fmt.Errorf("making the high-water mark of the journal, in the runtime directory: %w", err)
	}
	m.set(p)
	storeWord(m.data, binary.LittleEndian.Uint64([]byte(markMagic)))
	return m, nil
}

func (m *mark) open() error {
	f, err := os.OpenFile(m.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := reserve(f, markSize); err != nil {
		return err
	}
	m.data, err = mapFile(f, markSize)
	return err
}

// set writes the position. A plain store to memory is enough: the kernel keeps
// all stores of a killed process, in their order.
func (m *mark) set(p position) {
	if m != nil {
		binary.LittleEndian.PutUint64(m.data[8:], uint64(p))
	}
}

// close ends the mark; the file stays.
func (m *mark) close() error {
	if m == nil {
		return nil
	}
	return unmap(m.data)
}

// loseMark stops the use of a mark that cannot be written any more. The file that
// is left will not fit the journal at the next start, so that the floor rises
// then.
func (j *journal) loseMark(cause error) {
	j.problem(fmt.Errorf("the high-water mark %s cannot be written, the next start raises the replay floor: %w", j.mark.path, cause))
	_ = os.Remove(j.mark.path)
	_ = j.mark.close()
	j.mark = nil
}

// behind returns the reason why the mark at the path does not fit the journal
// that was read, or "" if it fits. A mark that is one entry behind fits, because
// a process can be killed after it wrote an entry and before it set the mark.
func (r *replayed) behind(path string) (why string, err error) {
	p, found, err := readMark(path)
	switch {
	case err != nil:
		return "", err
	case !found && len(r.segments) == 0, found && (p == r.position || p == r.before):
		return "", nil
	case !found:
		return "the high-water mark " + path + " is missing", nil
	default:
		return "the journal does not end where the high-water mark " + path + " says", nil
	}
}
