package auditfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserveRoom allocates n bytes of the disk behind the end of the file, without
// changing its size. Where the file system cannot, it does nothing.
func reserveRoom(f *os.File, size, n int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, size, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
