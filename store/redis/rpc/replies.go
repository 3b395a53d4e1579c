package rpc

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// A guarded is a connection that fails before go-redis reads a reply that no Redis
// gives: go-redis reserves memory for all that a reply announces, and follows lists
// in lists until the stack is full.
type guarded struct {
	net.Conn
	replies replyStream
	bad     error // what was wrong with the replies; every later Read returns it
}

func (g *guarded) Read(b []byte) (int, error) {
	if g.bad != nil {
		return 0, g.bad
	}
	n, err := g.Conn.Read(b)
	if g.bad = g.replies.check(b[:n]); g.bad != nil {
		return 0, g.bad
	}
	return n, err
}

// SyscallConn is called by go-redis to find out whether the server has closed an
// idle connection.
func (g *guarded) SyscallConn() (syscall.RawConn, error) {
	if plain, ok := g.Conn.(syscall.Conn); ok {
		return plain.SyscallConn()
	}
	return opaque{}, nil
}

// opaque replaces the socket of a TLS connection, whose bytes cannot be read
// directly.
type opaque struct{}

func (opaque) Control(func(uintptr)) error    { return nil }
func (opaque) Read(func(uintptr) bool) error  { return nil }
func (opaque) Write(func(uintptr) bool) error { return nil }

// Bounds of one reply. The largest that the gateway asks for is CLUSTER SLOTS of a
// cluster where each slot was moved by itself: 16,384 lists of a master and its
// replicas.
const (
	MaxReplyBytes  = 16 << 20
	maxReplyValues = 1 << 20 // in all lists and maps
	maxReplyDepth  = 32      // of lists in lists
	maxReplyLine   = 64 << 10
)

// The first bytes of values, by what follows their line. RESP3 has also attributes
// and values of unknown length; Redis sends neither to the gateway.
const (
	scalarKinds = "+-:_#,(" // nothing
	textKinds   = "$=!"     // the announced bytes
	listKinds   = "*~>%"    // the announced values; % is a map, with two for each pair
)

// A replyStream is the state of a stream of replies in the protocol of Redis.
type replyStream struct {
	line          []byte // the beginning of a line whose end has not arrived
	text          int    // bytes that have not arrived of a text and the line end after it
	open          []int  // values that have not arrived of each open list, the outermost first
	bytes, values int    // in the reply so far, with those that are announced
}

// check reads the bytes that come next. After an error nothing can be said about
// later ones.
func (r *replyStream) check(b []byte) error {
	for len(b) > 0 {
		n := min(r.text, len(b))
		if n > 0 {
			if r.text -= n; r.text == 0 {
				r.complete()
			}
		} else {
			var err error
			if n, err = r.readLine(b); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}

const lineEnd = "\r\n"

// readLine returns how many of the bytes belong to the line that begins or has begun.
func (r *replyStream) readLine(b []byte) (int, error) {
	n := bytes.IndexByte(b, '\n') + 1
	whole := n > 0
	if !whole {
		n = len(b)
	}
	r.line = append(r.line, b[:n]...)
	switch {
	case strings.IndexByte(scalarKinds+textKinds+listKinds, r.line[0]) < 0:
		return 0, fmt.Errorf("redis has sent %.40q, which is not its protocol; is another server at this address, or one that wants TLS?", r.line)
	case len(r.line) > maxReplyLine:
		return 0, fmt.Errorf("redis has sent a line of more than %d bytes", maxReplyLine)
	case !whole:
		return n, nil
	}
	err := r.begin()
	r.line = r.line[:0]
	return n, err
}

// begin reads the line that a value begins with.
func (r *replyStream) begin() error {
	head, ok := bytes.CutSuffix(r.line, []byte(lineEnd))
	if !ok {
		return fmt.Errorf("redis has sent the line %.40q without a carriage return", r.line)
	}
	if len(r.open) == 0 {
		r.bytes, r.values = 0, 0
	}
	r.bytes += len(r.line)
	kind := head[0]
	if strings.IndexByte(scalarKinds, kind) >= 0 || string(head) == "$-1" || string(head) == "*-1" {
		r.complete()
		return r.bounded()
	}
	n, err := strconv.ParseUint(string(head[1:]), 10, 31)
	switch {
	case err != nil:
		return fmt.Errorf("redis has announced the length %.40q", head)
	case strings.IndexByte(textKinds, kind) >= 0:
		r.text = int(n) + len(lineEnd)
		r.bytes += int(n)
	case n == 0:
		r.complete()
	default:
		if kind == '%' {
			n *= 2
		}
		r.values += int(n)
		r.open = append(r.open, int(n))
	}
	return r.bounded()
}

// complete notes that a value has arrived, and with it the lists that it completes.
func (r *replyStream) complete() {
	for i := len(r.open) - 1; i >= 0; i-- {
		if r.open[i]--; r.open[i] > 0 {
			return
		}
		r.open = r.open[:i]
	}
}

func (r *replyStream) bounded() error {
	if r.bytes > MaxReplyBytes || r.values > maxReplyValues || len(r.open) > maxReplyDepth {
		return fmt.Errorf("redis has announced a reply of at least %d bytes with %d values, %d lists deep; at most %d, %d and %d are read",
			r.bytes, r.values, len(r.open), MaxReplyBytes, maxReplyValues, maxReplyDepth)
	}
	return nil
}
