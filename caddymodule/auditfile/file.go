package auditfile

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrBehind means that lines wait to be written, because the file cannot be
// written at present.
var ErrBehind = errors.New("the audit file cannot be written")

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

var (
	openedMu sync.Mutex
	opened   = make(map[string]*File)
)

// At returns the file of a path, an absolute one. All configurations of the
// process share it. It does no I/O: the first line, or the first call of Ready,
// opens the file.
func At(path string) *File {
	openedMu.Lock()
	defer openedMu.Unlock()
	if opened[path] == nil {
		opened[path] = newFile(path)
	}
	return opened[path]
}

func newFile(path string) *File {
	f := &File{path: path, calls: make(chan call, queueSize)}
	f.w = &writer{path: path, head: path + headSuffix}
	return f
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
		return ErrBehind
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

// Behind reports whether lines wait or were lost.
func (f *File) Behind() bool { return f.trouble.Load() != nil || f.lost.Load() > 0 }

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
		f.w.hold(lostLine(lost))
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
	text := err.Error()
	f.trouble.Store(&text)
}
