package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/card-gateway/card-gateway/store"
)

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
	if before := st.spareTrouble.Swap(errorText(err)); err != nil && before == nil {
		st.opt.OnProblem(fmt.Errorf("there is no room on the disk for changes of keys: %w", err))
	}
}

func errorText(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}

// makeSpare makes the file and allocates its blocks.
func (st *state) makeSpare(size int) error {
	path := st.path + spareSuffix
	_ = os.Remove(path) // left by a crash, or planted
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = reserve(f, size); err == nil {
		err = st.opt.sync(f)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return err
	}
	st.spare = keySpare{f, size}
	return nil
}

func (st *state) dropSpare() {
	if st.spare.f != nil {
		_ = st.spare.f.Close()
		_ = os.Remove(st.path + spareSuffix)
	}
	st.spare = keySpare{}
}

// replaceFromSpare replaces the key file by the spare with the content. Nothing is
// allocated for it.
func (st *state) replaceFromSpare(content []byte) error {
	s := st.spare
	if s.f == nil || s.size < len(content) {
		return fmt.Errorf("%w: the room for it is used up", store.ErrUnavailable)
	}
	st.spare = keySpare{}
	defer func() { _ = s.f.Close() }()
	path := st.path + spareSuffix
	if _, err := s.f.WriteAt(content, 0); err != nil {
		return err
	}
	if err := s.f.Truncate(int64(len(content))); err != nil {
		return err
	}
	if err := st.opt.sync(s.f); err != nil {
		return err
	}
	if err := sameFile(s.f, path); err != nil {
		return err
	}
	if err := os.Rename(path, st.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(st.path), st.opt.sync)
}

// sameFile checks that nobody has put another file in the place of an open one.
func sameFile(f *os.File, path string) error {
	own, err := f.Stat()
	if err != nil {
		return err
	}
	found, err := os.Lstat(path)
	if err == nil && !os.SameFile(own, found) {
		err = fmt.Errorf("%s is not the file that the gateway made", path)
	}
	return err
}
