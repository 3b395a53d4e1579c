package auditfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/card-gateway/card-gateway/platform"
	"github.com/gofrs/flock"
)

// ErrLinesWait means that lines wait to be written, because the file cannot be
// written at present.
var ErrLinesWait = errors.New("the audit file cannot be written")

const (
	retryEvery = time.Second     // while lines wait
	queueSize  = 256             // calls
	answerWait = 2 * time.Second // for the writer, which a disk may hold up
)

// A File is an audit file that this process writes. A line that cannot be written
// waits until it can. Lines for which no place is left are counted, and a line
// reports their number.
type File struct {
	path  string
	calls chan call
	begin sync.Once
	w     *writer

	trouble atomic.Pointer[string] // why the file cannot be written; nil: it can
	last    atomic.Pointer[link]
	lost    atomic.Uint64 // lines for which there was no place, not yet reported
}

// call is a line to be written, or without a body the question whether the next
// one can be.
type call struct {
	body []byte
	done chan<- error
}

var opened sync.Map // *File by path

// At returns the file of a path, an absolute one. All configurations of the
// process share it. It does no I/O: the first line, or the first call of Ready,
// opens the file.
func At(path string) *File {
	f, _ := opened.LoadOrStore(path, newFile(path))
	return f.(*File)
}

func newFile(path string) *File {
	return &File{path: path, calls: make(chan call, queueSize), w: &writer{path: path, head: path + headSuffix}}
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// Append writes a line with the fields of a JSON object, without a line end. It
// does not wait for the disk.
func (f *File) Append(body []byte) {
	if !f.call(call{body: body}) {
		f.lost.Add(1)
	}
}

// Ready writes the lines that wait, reserves room for the next ones, and returns
// nil if they can be written. Otherwise the error has the cause. It waits for the
// disk, for at most two seconds.
func (f *File) Ready(ctx context.Context) error {
	done := make(chan error, 1)
	if !f.call(call{done: done}) {
		return ErrLinesWait
	}
	timer := time.NewTimer(answerWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errors.New("the disk of the audit file does not answer")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LinesWait reports whether lines wait or were lost.
func (f *File) LinesWait() bool { return f.trouble.Load() != nil || f.lost.Load() > 0 }

// A State is how far a file was written.
type State struct {
	Path    string `json:"path"`
	Seq     uint64 `json:"seq"`               // of the last line; 0 before the first of this process
	Hash    string `json:"hash"`              // of the last line, in hex
	Trouble string `json:"trouble,omitempty"` // why no line can be written
}

// State returns how far the file was written.
func (f *File) State() State {
	s := State{Path: f.path}
	if last := f.last.Load(); last != nil {
		s.Seq, s.Hash = last.seq, last.String()[21:21+64]
	}
	if trouble := f.trouble.Load(); trouble != nil {
		s.Trouble = *trouble
	}
	return s
}

// call hands a call to the writer, unless too many wait.
func (f *File) call(c call) bool {
	f.begin.Do(func() { go f.run() })
	select {
	case f.calls <- c:
		return true
	default:
		return false
	}
}

// run writes lines for as long as the process lives.
func (f *File) run() {
	var retry <-chan time.Time
	short := false // there was no room for the next lines
	for {
		var c call
		select {
		case c = <-f.calls:
		case <-retry:
		}
		if c.body != nil && !f.w.hold(c.body) {
			f.lost.Add(1)
		}
		err := f.write()
		if err == nil && (c.done != nil || short) {
			err = f.w.reserve()
			short = err != nil
		}
		f.report(err)
		if c.done != nil {
			c.done <- err
		}
		retry = nil
		if err != nil {
			retry = time.After(retryEvery)
		}
	}
}

// write writes all lines that wait.
func (f *File) write() error {
	err := f.w.flush()
	if lost := f.lost.Load(); err == nil && lost > 0 {
		f.w.hold(note("lost", fmt.Sprintf(`"lost":%d`, lost)))
		if err = f.w.flush(); err == nil {
			f.lost.Add(-lost)
		}
	}
	last := f.w.last
	f.last.Store(&last)
	return err
}

func (f *File) report(err error) {
	if err == nil {
		f.trouble.Store(nil)
		return
	}
	f.trouble.Store(new(err.Error()))
}

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
	if err := f.Sync(); err != nil { // before the head, which is never ahead of the file
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
	f, err := platform.OpenOwn(w.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, fileMode)
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil && info.Size() == 0 {
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

// unfit reports whether waiting does not help: a part of the path is missing, closed or
// not what it should be.
func unfit(err error) bool {
	causes := []error{platform.ErrNotOwn, os.ErrNotExist, os.ErrPermission, syscall.EISDIR, syscall.ENOTDIR}
	return !errors.Is(err, ErrUnfit) && slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}

// Check returns an error if the path cannot be that of an audit file of this user. It
// makes nothing.
func Check(path string) error {
	err := platform.MayWrite(filepath.Dir(path))
	for _, name := range []string{path, path + headSuffix} {
		f, openErr := platform.OpenOwn(name, os.O_RDWR, 0)
		_ = f.Close() // nil: an error of its own
		if err == nil && !errors.Is(openErr, os.ErrNotExist) {
			err = openErr
		}
	}
	if err != nil {
		return fmt.Errorf("%s %w for the user %d: %w", path, ErrUnfit, os.Geteuid(), err)
	}
	return nil
}

// takeOver takes the lock and finds where the chain ends: where the head says, or
// at the last line of the file if the head is older, as after a power failure, or
// missing.
func (w *writer) takeOver(f *os.File) error {
	own, err := platform.OpenOwn(w.head, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	_ = own.Close()
	lock := flock.New(w.head, flock.SetPermissions(fileMode))
	switch held, err := lock.TryLock(); {
	case err != nil:
		return err
	case !held:
		return fmt.Errorf("%s %w: another process writes it", w.path, ErrUnfit)
	}
	head, found, err := readHead(w.head)
	var line []byte
	if err == nil {
		line, _, err = tail(f)
	}
	if err == nil {
		err = os.Chmod(w.head, fileMode)
	}
	if err != nil {
		_ = lock.Unlock()
		return err
	}
	w.lock, w.last = lock, head
	if e, whole := parseLine(line); whole && (!found || e.Seq > head.seq) {
		w.last = linkOf(e, line)
	}
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
	if err := platform.ReserveBehind(f, info.Size(), reserveFor); err != nil {
		return fmt.Errorf("reserving room for the audit file: %w", err)
	}
	w.reserved, w.until = info, info.Size()+reserveFor
	return nil
}

const maxLine = 1 << 20 // bytes; a line is far shorter

// tail returns the last whole line of the file without its line end, and the
// length of what follows it.
func tail(f *os.File) (line []byte, torn int, err error) {
	text, err := ending(f, 2*maxLine)
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

// ending returns the last bytes of a file, at most n of them.
func ending(f *os.File, n int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-n)
	return io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
}
