//go:build unix

package forward

import (
	"io"
	"net"
	"syscall"
)

// A nowReader reads a socket without waiting for bytes.
type nowReader struct {
	raw syscall.RawConn
	try func(fd uintptr) bool
	p   []byte
	n   int
	err error
}

// newNowReader returns nil for a connection that is not a socket.
func newNowReader(c net.Conn) *nowReader {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	r := &nowReader{raw: raw}
	r.try = r.tryRead
	return r
}

// read returns errWouldBlock when no byte has arrived, and io.EOF when the other
// side has closed.
func (r *nowReader) read(p []byte) (int, error) {
	r.p, r.n, r.err = p, 0, nil
	if err := r.raw.Read(r.try); err != nil {
		return 0, err
	}
	r.p = nil
	return r.n, r.err
}

// tryRead is called with the socket, which does not block.
func (r *nowReader) tryRead(fd uintptr) bool {
	for {
		n, err := syscall.Read(int(fd), r.p)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN || err == syscall.EWOULDBLOCK:
			r.err = errWouldBlock
		case err != nil:
			r.err = err
		case n == 0:
			r.err = io.EOF
		default:
			r.n = n
		}
		return true
	}
}
