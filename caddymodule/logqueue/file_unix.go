//go:build unix

package logqueue

import (
	"os"

	"golang.org/x/sys/unix"
)

// mayCreateIn returns an error if this process cannot create a file in the directory.
func mayCreateIn(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &os.PathError{Op: "creating a file in", Path: dir, Err: err}
	}
	return nil
}
