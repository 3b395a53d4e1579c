//go:build unix

package file

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the whole file for writing. Bytes that are written to the mapping
// survive the end of the process without a further call.
func mapFile(f *os.File, size int) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	return b, nil
}

func unmap(b []byte) error { return unix.Munmap(b) }

// mayWrite reports whether this process may make files in the directory.
func mayWrite(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
