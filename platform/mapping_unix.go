//go:build unix

// Package platform is what the gateway needs of the operating system beyond the standard
// library: room on the disk that is reserved, mapped files, the run of the machine, the
// right to write into a directory, and who listens on a socket. Begin with [Map]. Where a
// system cannot do something, the function fails or returns nothing.
package platform

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Map reserves the disk blocks of the file and maps the whole file for writing. Bytes
// that are written to the mapping survive the end of the process without a further
// call.
func Map(f *os.File, size int) ([]byte, error) {
	if err := Reserve(f, size); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	populate(b)
	return b, nil
}

// Unmap ends a mapping.
func Unmap(b []byte) error { return unix.Munmap(b) }

// MayWrite returns an error if this process cannot make files in the directory.
func MayWrite(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }

// fill writes zeros over the whole file, where blocks cannot be reserved.
func fill(f *os.File, size int) error {
	zeros := make([]byte, 64<<10)
	for size > 0 {
		n, err := f.Write(zeros[:min(size, len(zeros))])
		if err != nil {
			return err
		}
		size -= n
	}
	return nil
}
