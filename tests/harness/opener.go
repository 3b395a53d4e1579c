package harness

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// opener returns the name of the process that opened a connection, or nothing
// for one that is not known. open is false if that process has closed it since.
//
// On a busy machine many connections wait here, and most are closed by then. So
// one reading of the processes serves all that wait, and the bytes of other
// connections do not wait for it.
func (l *Links) opener(conn net.Conn) (name string, open bool) {
	l.openers.Lock()
	defer l.openers.Unlock()
	inode, err := inodeOf(conn.RemoteAddr().(*net.TCPAddr), conn.LocalAddr().(*net.TCPAddr))
	if err != nil || inode == 0 {
		return "", err != nil
	}
	if _, known := l.sockets[inode]; !known {
		l.sockets = l.readSockets()
	}
	return l.sockets[inode], true
}

// readSockets returns the name of the process for each socket, by inode.
func (l *Links) readSockets() map[uint32]string {
	l.mu.Lock()
	pids := maps.Clone(l.pids)
	l.mu.Unlock()
	all := make(map[uint32]string)
	for name, pid := range pids {
		for _, inode := range socketsOf(pid()) {
			all[inode] = name
		}
	}
	return all
}

// inodeOf returns the inode of a socket of this machine, by its two addresses;
// 0 for one that is closed. It asks the kernel as ss(8) does, see sock_diag(7):
// the table in /proc/net/tcp takes milliseconds to read.
func inodeOf(local, remote *net.TCPAddr) (uint32, error) {
	const anyInterface, noCookie, requestLength, inodeAt = 0, ^uint32(0), 56, 68
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	host, network := binary.NativeEndian, binary.BigEndian
	ask := host.AppendUint32(nil, unix.SizeofNlMsghdr+requestLength)
	ask = host.AppendUint16(ask, unix.SOCK_DIAG_BY_FAMILY)
	ask = host.AppendUint16(ask, unix.NLM_F_REQUEST)
	ask = append(ask, make([]byte, 8)...) // number and sender
	ask = append(ask, unix.AF_INET, unix.IPPROTO_TCP, 0, 0)
	ask = host.AppendUint32(ask, ^uint32(0)) // in any state
	ask = network.AppendUint16(ask, uint16(local.Port))
	ask = network.AppendUint16(ask, uint16(remote.Port))
	for _, ip := range []net.IP{local.IP, remote.IP} {
		ask = append(append(ask, ip.To4()...), make([]byte, 12)...)
	}
	for _, word := range []uint32{anyInterface, noCookie, noCookie} {
		ask = host.AppendUint32(ask, word)
	}
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+inodeAt+4 || host.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		return 0, err
	}
	return host.Uint32(answer[unix.SizeofNlMsghdr+inodeAt:]), nil
}

// socketsOf returns the inodes of the sockets that a process has open.
func socketsOf(pid int) (inodes []uint32) {
	if pid == 0 {
		return nil
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join(dir, e.Name()))
		var inode uint32
		if _, err := fmt.Sscanf(target, "socket:[%d]", &inode); err == nil {
			inodes = append(inodes, inode)
		}
	}
	return inodes
}
