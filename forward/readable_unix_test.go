//go:build unix

package forward

import (
	"errors"
	"syscall"
	"testing"
	"time"
)

// waitReadable waits until what the issuer did on its one idle connection has
// arrived on this side, without reading it.
func waitReadable(t testing.TB, is *issuer) {
	t.Helper()
	is.mu.Lock()
	defer is.mu.Unlock()
	if len(is.idle) != 1 {
		t.Fatalf("%d connections are idle, want 1", len(is.idle))
	}
	c := is.idle[0]
	_ = c.socket.SetReadDeadline(time.Now().Add(30 * time.Second))
	err := c.now.raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		return !errors.Is(err, syscall.EAGAIN)
	})
	if err != nil {
		t.Fatal(err)
	}
}
