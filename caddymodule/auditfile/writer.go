package auditfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// ErrUnfit means that no line can ever be written to the path: it is no file, its
// directory is missing, or the file belongs to somebody else.
var ErrUnfit = errors.New("cannot be an audit file")

const (
	maxWaiting = 4096             // lines
	reserveFor = int64(256 << 10) // bytes that the next lines may need
)

// A writer writes the file and its head. Only one goroutine uses it.
type writer struct {
	path, head string
	lock       *flock.Flock // held from the first line to the end of the process
	last       link         // known while lock is held

	waiting  [][]byte // bodies, oldest first
	reserved os.FileInfo
	until    int64 // the end of the room that was reserved in that file
}

// hold adds a line to those that wait. It returns false if there is no place.
func (w *writer) hold(body []byte) bool {
	if len(w.waiting) >= maxWaiting {
		return false
	}
	w.waiting = append(w.waiting, body)
	return true
}

func lostLine(n uint64) []byte { return note("lost", fmt.Sprintf(`"lost":%d`, n)) }

// note returns the body of a line that the writer itself adds.
func note(action, field string) []byte {
	return fmt.Appendf(nil, `{"at":%q,"actor":"gateway","action":%q,%s}`, time.Now().UTC().Format(time.RFC3339Nano), action, field)
}

// flush writes the lines that wait. It opens the file for each call, so that a
// file that was moved away or removed is made anew.
func (w *writer) flush() error {
	if len(w.waiting) == 0 {
		return nil
	}
	f, err := w.open()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := w.mend(f); err != nil {
		return err
	}
	for len(w.waiting) > 0 {
		if err := w.append(f, w.waiting[0]); err != nil {
			return err
		}
		w.waiting = w.waiting[1:]
	}
	w.waiting = nil
	return w.finish(f)
}

// finish writes what was appended through to the disk, and then the head. So the
// head is never ahead of the file.
func (w *writer) finish(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	return writeHead(w.head, w.last)
}

// append writes a line. A part of a line is taken back.
func (w *writer) append(f *os.File, body []byte) error {
	line, next := w.last.next(body)
	before, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.Write(line); err != nil {
		_ = f.Truncate(before) // if this fails too, mend marks the part as torn
		return err
	}
	w.last = next
	return nil
}

// mend ends a line that a crash has cut off, and adds a line that reports it.
func (w *writer) mend(f *os.File) error {
	_, torn, err := tail(f)
	if err != nil || torn == 0 {
		return err
	}
	line, next := w.last.next(note("torn", fmt.Sprintf(`"torn_bytes":%d`, torn)))
	if _, err := f.Write(append([]byte{'\n'}, line...)); err != nil {
		return err
	}
	w.last = next
	return nil
}

// open opens the file, and on the first call takes the lock and finds where the
// chain ends.
func (w *writer) open() (*os.File, error) {
	f, err := os.OpenFile(w.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, fileMode)
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s %w: it is not a regular file", w.path, ErrUnfit)
		}
		if err == nil && info.Size() == 0 {
			err = f.Chmod(fileMode)
		}
		if err == nil && w.lock == nil {
			err = w.takeOver(f)
		}
		if err != nil {
			_ = f.Close()
		}
	}
	if unfit(err) {
		return nil, fmt.Errorf("%s %w: %w", w.path, ErrUnfit, err)
	}
	return f, err
}

// unfit reports whether waiting does not help.
func unfit(err error) bool {
	return err != nil && !errors.Is(err, ErrUnfit) && (errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || noFile(err))
}

// takeOver takes the lock and finds where the chain ends: where the head says, or
// at the last line of the file if the head is older, as after a power failure, or
// missing.
func (w *writer) takeOver(f *os.File) error {
	lock := flock.New(w.head, flock.SetPermissions(fileMode))
	switch held, err := lock.TryLock(); {
	case err != nil:
		return err
	case !held:
		return fmt.Errorf("%s %w: another process writes it", w.path, ErrUnfit)
	}
	head, known, err := readHead(w.head)
	if err != nil {
		_ = lock.Unlock()
		return err
	}
	line, _, err := tail(f)
	if err != nil {
		_ = lock.Unlock()
		return err
	}
	if err := os.Chmod(w.head, fileMode); err != nil {
		_ = lock.Unlock()
		return err
	}
	w.last = head
	if e, whole := parseLine(line); whole && (!known || e.Seq > head.seq) {
		w.last = linkOf(e, line)
	}
	w.lock = lock
	return nil
}

// reserve makes sure that the next lines have room on the disk.
func (w *writer) reserve() error {
	f, err := w.open()
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if w.reserved != nil && os.SameFile(info, w.reserved) && info.Size()+reserveFor/2 <= w.until && info.Size() >= w.reserved.Size() {
		return nil
	}
	if err := reserveRoom(f, info.Size(), reserveFor); err != nil {
		return fmt.Errorf("reserving room for the audit file: %w", err)
	}
	w.reserved, w.until = info, info.Size()+reserveFor
	return nil
}

const maxLine = 1 << 20 // bytes; a line is far shorter

// tail returns the last whole line of the file without its line end, and the
// length of what follows it.
func tail(f *os.File) (line []byte, torn int, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	from := max(0, info.Size()-2*maxLine)
	text, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return nil, 0, err
	}
	end := bytes.LastIndexByte(text, '\n')
	torn = len(text) - end - 1
	if end < 0 {
		return nil, torn, nil
	}
	begin := bytes.LastIndexByte(text[:end], '\n') + 1
	return text[begin:end], torn, nil
}
