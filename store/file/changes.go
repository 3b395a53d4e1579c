package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/card-gateway/card-gateway/platform"
	"github.com/card-gateway/card-gateway/store"
)

// A keyLog is the key file while changes are appended to it. The guard of st.changes
// guards it.
type keyLog struct {
	f    *os.File // nil: the next change writes the file anew
	size int64    // of the file
	most int64    // size at which it is written anew, so that the cost of a change is constant
	sum  string   // of its last object
}

// record writes a change, which its data describes, into the key file, through to the
// disk. The caller must hold st.changes.
func (st *state) record(data []byte) error {
	if st.appendChange(data) {
		return nil
	}
	return st.writeKeyFile(data)
}

// appendChange appends the change to the key file. It returns false if the file must be
// written anew.
func (st *state) appendChange(data []byte) bool {
	l := &st.log
	if l.f == nil || l.size >= l.most || !sameFile(l.f, st.path) {
		return false
	}
	b, sum := appendObject(nil, keyFileGrowing, l.sum, func(b []byte) []byte { return append(b, data...) })
	_, err := l.f.WriteAt(b, l.size)
	if err == nil {
		err = st.opt.sync(l.f)
	}
	if err != nil {
		_ = l.f.Truncate(l.size) // no change that fails is read again
		return false
	}
	l.size, l.sum = l.size+int64(len(b)), sum
	return true
}

// writeKeyFile writes the key file anew: the state, and the change behind it if its data
// are not nil. The caller must hold st.changes.
func (st *state) writeKeyFile(data []byte) error {
	_ = st.log.f.Close() // which frees the room of the file that is replaced
	st.log = keyLog{}
	if st.version = keyFileWhole; data != nil {
		st.version = keyFileGrowing
	}
	b, sum := appendObject(st.document[:0], st.version, "", st.appendAll)
	if data != nil {
		b, sum = appendObject(b, st.version, sum, func(b []byte) []byte { return append(b, data...) })
	}
	st.document = b
	err := replaceFile(st.path, b, st.opt.sync)
	if spare := st.spare; fullDisk(err) && spare.f != nil && spare.size >= len(b) {
		st.spare = keySpare{}
		err = putInPlace(spare.f, st.path, b, st.opt.sync)
		st.prepareSpare() // of the room that the old file has left
	}
	if err != nil {
		return fmt.Errorf("%w: writing the key file: %w", store.ErrUnavailable, err)
	}
	if f, err := os.OpenFile(st.path, os.O_WRONLY, 0); err == nil {
		size := int64(len(b))
		st.log = keyLog{f, size, size + max(size/2, spareMargin), sum}
	}
	return nil
}

// replaceFile replaces the content of the file. It first writes the new file under
// another name.
func replaceFile(path string, content []byte, sync func(*os.File) error) error {
	f, err := createAnew(path + ".new")
	if err != nil {
		return err
	}
	return putInPlace(f, path, content, sync)
}

// putInPlace writes the content into a file, closes it and puts it at the path. Even
// after a crash, either the old or the new file is there on the disk, complete. If f is
// as long as the content, nothing is allocated for it.
func putInPlace(f *os.File, path string, content []byte, sync func(*os.File) error) error {
	_, err := f.WriteAt(content, 0)
	if err == nil {
		err = f.Truncate(int64(len(content)))
	}
	if err == nil {
		err = sync(f)
	}
	if err == nil && !sameFile(f, f.Name()) {
		err = fmt.Errorf("%s is not the file that the gateway made", f.Name())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return sync(dir) // so that the rename survives a crash
}

// sameFile reports whether the path is still that of the open file.
func sameFile(f *os.File, path string) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	found, err := os.Lstat(path)
	return err == nil && os.SameFile(own, found)
}

// createAnew makes a file. A file or link of that name, left by a crash or planted,
// is removed and never followed.
func createAnew(path string) (*os.File, error) {
	_ = os.Remove(path)
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// A keySpare is room on the disk for the next key file, so that keys can be
// changed while the disk is full. The guard of st.changes guards it.
type keySpare struct {
	f    *os.File // nil: there is no room
	size int
}

const (
	spareSuffix = ".spare"
	spareMargin = 64 << 10 // bytes by which a key file may grow
	spareLeast  = 4 << 10  // the margin when the disk is almost full
)

// fullDisk reports whether an error means that there is no room.
func fullDisk(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// prepareSpare makes room for the next key file if there is less than it needs.
// The caller must hold st.changes. Until the room is made, Status reports that
// changes of keys are in danger.
func (st *state) prepareSpare() {
	length := len(st.document)
	if info, err := os.Stat(st.path); err == nil { // of another process, or not written yet
		length = max(length, int(info.Size()))
	}
	if st.closed || st.spare.f != nil && st.spare.size >= length+spareLeast {
		return
	}
	st.dropSpare()
	err := st.makeSpare(length + spareMargin)
	if fullDisk(err) {
		err = st.makeSpare(length + spareLeast)
	}
	var trouble *string
	if err != nil {
		trouble = new(err.Error())
	}
	if before := st.spareTrouble.Swap(trouble); err != nil && before == nil {
		st.opt.OnProblem(fmt.Errorf("there is no room on the disk for changes of keys: %w", err))
	}
}

// makeSpare makes the file and allocates its blocks.
func (st *state) makeSpare(size int) error {
	f, err := createAnew(st.path + spareSuffix)
	if err != nil {
		return err
	}
	st.spare = keySpare{f, size}
	if err = platform.Reserve(f, size); err == nil {
		err = st.opt.sync(f)
	}
	if err != nil {
		st.dropSpare()
	}
	return err
}

func (st *state) dropSpare() {
	_ = st.spare.f.Close()
	_ = os.Remove(st.path + spareSuffix)
	st.spare = keySpare{}
}
