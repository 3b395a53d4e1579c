//go:build !unix

package forward

import "net"

// A nowReader reads a socket without waiting for bytes, which this system does
// not offer in a way that works for every connection.
type nowReader struct{}

func newNowReader(net.Conn) *nowReader { return nil }

func (*nowReader) read([]byte) (int, error) { return 0, errWouldBlock }
