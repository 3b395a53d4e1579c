package platform

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reserve allocates the disk blocks of the file, so that a write through a mapping
// cannot fail because the disk is full.
func Reserve(f *os.File, size int) error {
	for {
		switch err := unix.Fallocate(int(f.Fd()), 0, 0, int64(size)); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return fill(f, size)
		default:
			return fmt.Errorf("reserving %d bytes: %w", size, err)
		}
	}
}

// populate makes the pages of a mapping present, so that the first write to
// each costs no fault. It is an optimisation and may fail.
func populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }

// Boot returns a text that identifies this run of the machine, or "".
func Boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // missing in some sandboxes
	return strings.TrimSpace(string(b))
}

// ReserveBehind allocates n bytes of the disk behind the end of the file, which has the
// size, without changing it. Where the file system cannot, it does nothing.
func ReserveBehind(f *os.File, size, n int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, size, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

// OfAnotherProcess reports whether another process listens on the socket that a
// connection was made to.
func OfAnotherProcess(conn *net.UnixConn) (other bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		listener, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		other = err == nil && int(listener.Pid) != os.Getpid()
	})
	return other
}

// HalfOpen reports whether bytes can still be sent over a connection whose peer may have
// closed its side. It cannot tell a peer that takes no more from one that waits, until
// bytes are sent.
func HalfOpen(conn syscall.RawConn) (open bool) {
	_ = conn.Control(func(fd uintptr) { // fails for a connection that is closed
		state := []unix.PollFd{{Fd: int32(fd)}} // what is always reported: POLLHUP, POLLERR, POLLNVAL
		n, err := unix.Poll(state, 0)
		open = err == nil && n == 0
	})
	return open
}

// Synchronised reports whether something keeps the clock of this machine right. The
// kernel's largest error is 16 s while nobody tells it a smaller one.
func Synchronised() (bool, error) {
	var clock unix.Timex // no modes: it only asks
	_, err := unix.Adjtimex(&clock)
	return clock.Maxerror < 16_000_000, err
}
