package node

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ofAnotherProcess reports whether another process listens on the socket that a
// connection was made to.
func ofAnotherProcess(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	other := false
	_ = raw.Control(func(fd uintptr) {
		listener, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		other = err == nil && int(listener.Pid) != os.Getpid()
	})
	return other
}
