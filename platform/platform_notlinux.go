//go:build !linux

package platform

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// ReserveBehind does nothing: a change may be made whose line in a file waits for room.
func ReserveBehind(*os.File, int64, int64) error { return nil }

// OfAnotherProcess returns false: only Linux tells in one way who listens on a socket.
func OfAnotherProcess(*net.UnixConn) bool { return false }

// HalfOpen returns false: only Linux tells in one way whether a peer has gone.
func HalfOpen(syscall.RawConn) bool { return false }

// Synchronised fails: only Linux tells in one way.
func Synchronised() (bool, error) { return false, errors.ErrUnsupported }
