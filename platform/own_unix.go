//go:build unix

package platform

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotOwn means that a file or directory is not one that the gateway can have to
// itself. The error says why, and how to mend it.
var ErrNotOwn = errors.New("cannot be trusted")

// OpenOwn opens a file that the gateway writes, as os.OpenFile does. It fails with
// [ErrNotOwn] for a symbolic link, for a file that is not regular, has a second name,
// belongs to a stranger or can be written by everybody, and in a directory that everybody
// may write. A stranger is neither this user nor root nor the owner of the directory: a
// volume may be given to a group.
func OpenOwn(path string, flag int, mode os.FileMode) (*os.File, error) {
	if err := CheckOwnDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, mode)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s %w: it is a symbolic link; remove it, or configure the path that it leads to", path, ErrNotOwn)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = ownFile(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func ownFile(path string, info os.FileInfo) error {
	stat, dir := info.Sys().(*syscall.Stat_t), new(syscall.Stat_t)
	_ = syscall.Stat(filepath.Dir(path), dir) // of root, if it fails
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s %w: it is not a regular file", path, ErrNotOwn)
	case stat.Nlink > 1:
		return fmt.Errorf("%s %w: it has a second name (hard link); find it with find / -xdev -samefile %s, and remove one of them", path, ErrNotOwn, path)
	case !slices.Contains([]uint32{uint32(os.Geteuid()), 0, dir.Uid}, stat.Uid):
		return fmt.Errorf("%s %w: it belongs to the user %d: chown %d %s", path, ErrNotOwn, stat.Uid, os.Geteuid(), path)
	}
	return writableByOthers(path, info.Mode())
}

// CheckOwnDir returns [ErrNotOwn], wrapped, if everybody may write into the directory. It
// returns nil if the directory is missing.
func CheckOwnDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	default:
		return writableByOthers(path, info.Mode())
	}
}

// writableByOthers allows the group to write: orchestrators give a volume to a group.
func writableByOthers(path string, mode os.FileMode) error {
	if mode.Perm()&0o002 == 0 {
		return nil
	}
	return fmt.Errorf("%s %w: it can be written by everybody (mode %04o), who could then change what the gateway stores: chmod o-w %s", path, ErrNotOwn, mode.Perm(), path)
}

// MayMake returns an error if this process can neither write into the directory nor make
// it.
func MayMake(dir string) error {
	err := MayWrite(dir)
	for ; errors.Is(err, os.ErrNotExist) && dir != filepath.Dir(dir); err = MayWrite(dir) {
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return fmt.Errorf("the user %d may not write into %s (%w): chown it to this user, or run this as the gateway's user", os.Geteuid(), dir, err)
	}
	return nil
}
