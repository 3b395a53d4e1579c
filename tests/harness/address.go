package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// FreeAddress returns an address of this machine, with a port of [FreePort].
func FreeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t)))
}

// FreePort returns a port on which nothing listens, for a server that starts later,
// or stops and starts again, or never starts. No other test gets it until this
// process ends. It is outside of the range from which systems choose ports, also
// for a client's end of a connection, so that no other program gets it by chance.
func FreePort(t testing.TB) int {
	t.Helper()
	const first, many = 10_000, 20_000
	for range 1000 {
		port := first + rand.IntN(many)
		taken, err := ports.take(port)
		if err != nil {
			t.Fatal(err)
		}
		if taken && unused(port) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// portsTaken are the ports of this process. The processes of several tests agree
// by a file in which a byte is locked for each taken port: such locks end with the
// process, however it ends.
type portsTaken struct {
	mu    sync.Mutex
	file  *os.File
	given map[int]bool // a process can lock a byte twice
}

var ports = portsTaken{given: make(map[int]bool)}

// take reports whether the port was nobody's. It is this process' from then on.
func (p *portsTaken) take(port int) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given[port] {
		return false, nil
	}
	if p.file == nil {
		name := fmt.Sprintf("card-gateway-test-ports-%d", os.Getuid())
		file, err := os.OpenFile(filepath.Join(os.TempDir(), name), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return false, err
		}
		p.file = file // never closed: that would end the locks
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(port), Len: 1}
	switch err := unix.FcntlFlock(p.file.Fd(), unix.F_SETLK, &lock); {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil:
		return false, err
	}
	p.given[port] = true
	return true, nil
}

// unused reports whether nothing listens on the port at this machine's own address.
// It connects, and does not listen itself: a process that is being started at that
// moment would have a copy of the socket, and the port would be in use for longer.
func unused(port int) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Patience)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
