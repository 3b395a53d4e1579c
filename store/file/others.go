package file

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// writableByOthers returns an error, with the command that helps, if the mode
// lets users write who are neither the owner nor in the group. The group may
// write: orchestrators give a volume to a group.
func writableByOthers(path string, mode os.FileMode) error {
	if mode.Perm()&0o002 == 0 {
		return nil
	}
	return fmt.Errorf("%s can be written by everybody (mode %04o), who could then make keys or forget nonces: chmod o-w %s", path, mode.Perm(), path)
}

// checkDirectory returns an error if others may write into the directory. It
// returns nil if the directory is missing.
func checkDirectory(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("the store's directory: %w", err)
	default:
		return writableByOthers(path, info.Mode())
	}
}

// readOwn returns the content of a file. It fails if others may write the file,
// and returns os.ErrNotExist if it is missing.
func readOwn(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = writableByOthers(path, info.Mode())
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}
