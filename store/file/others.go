package file

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// writableByOthers returns an error that says what to do if the mode lets
// anybody write who is neither the owner nor in the group. The group is the
// operator's choice: orchestrators give a volume to one.
func writableByOthers(path string, mode os.FileMode) error {
	if mode.Perm()&0o002 == 0 {
		return nil
	}
	return fmt.Errorf("%s can be written by everybody (mode %04o), who could then make keys or forget nonces: chmod o-w %s", path, mode.Perm(), path)
}

// checkDirectory returns an error if others may write into the directory. That
// there is none is no error.
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

// readOwn reads a file that others may not write. That there is none is an
// os.ErrNotExist.
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
