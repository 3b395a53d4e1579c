//go:build !unix

package forward

import "net"

// A nowReader reads a socket without waiting for bytes. This system has no way to
// do that for every connection, so there is never one.
type nowReader struct{}

func newNowReader(net.Conn) *nowReader { return nil }

func (*nowReader) read([]byte) (int, error) { return 0, errWouldBlock }
