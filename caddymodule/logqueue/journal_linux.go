package logqueue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// journalSocket is where systemd's journal takes the streams of services.
const journalSocket = "/run/systemd/journal/stdout"

// A journal is a standard stream that leads to systemd's journal. When the journal was
// stopped and started, the stream is broken for good: another one takes its place, under
// the same number, so for all that write to it.
type journal struct {
	io.WriteCloser
	fd     int
	socket string
}

// overJournal returns the output, which writes to the descriptor, and lives on after a
// stop of the journal if it leads there.
func overJournal(out io.WriteCloser, fd int) io.WriteCloser {
	var is syscall.Stat_t
	if err := syscall.Fstat(fd, &is); err != nil || os.Getenv("JOURNAL_STREAM") != fmt.Sprintf("%d:%d", is.Dev, is.Ino) {
		return out
	}
	return &journal{out, fd, journalSocket}
}

// Write writes a line, to a new stream if the one before is broken.
func (j *journal) Write(line []byte) (int, error) {
	n, err := j.WriteCloser.Write(line)
	if errors.Is(err, syscall.EPIPE) && j.connect() == nil {
		return j.WriteCloser.Write(line)
	}
	return n, err
}

// connect makes a stream as systemd does for a service: by blocking calls, since nothing
// waits for a standard stream to become writable.
func (j *journal) connect() error {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: j.socket}); err != nil {
		return err
	}
	// The name, no unit (the journal knows it), the level info, a prefix "<3>" of a line
	// is its level, and nothing is passed on.
	if _, err := syscall.Write(fd, []byte("card-gateway\n\n6\n1\n0\n0\n0\n")); err != nil {
		return err
	}
	return syscall.Dup3(fd, j.fd, 0)
}
