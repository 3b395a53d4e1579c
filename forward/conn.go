package forward

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// A conn is one connection to an issuer. One request uses it at a time.
type conn struct {
	net.Conn            // the side that requests are written to: the socket, or TLS over it
	socket   net.Conn   // what is below TLS, else the same
	now      *nowReader // reads the socket without waiting; nil where that cannot be done
	wire     *wire      // between TLS and the socket; nil without TLS
	issuer   *issuer
	abort    func() // closes the socket at once; safe from any goroutine
	reused   bool   // an answer was read from it before
	since    time.Time
	one      [1]byte
	closed   atomic.Bool
}

// newConn wraps a socket, and shakes hands later where secure is set.
func newConn(is *issuer, socket net.Conn) *conn {
	c := &conn{Conn: socket, socket: socket, now: newNowReader(socket), issuer: is}
	c.abort = func() { _ = socket.Close() }
	return c
}

// secure puts TLS over the socket. The handshake is still to come.
func (c *conn) secure(config *tls.Config) *tls.Conn {
	c.wire = &wire{Conn: c.socket, now: c.now}
	secured := tls.Client(c.wire, config)
	c.Conn = secured
	return secured
}

// errTruncated is the end of a socket without the alert that ends TLS. For
// crypto/tls it would be an ordinary end, which anybody on the way can cause.
var errTruncated = errors.New("the connection ended without an alert")

// idleState is what the check of an idle connection finds.
type idleState uint8

const (
	idleReady   idleState = iota // it may be used
	idleClosed                   // the issuer has closed it
	idleUnasked                  // the issuer has sent something on it
)

// state reads the idle connection without waiting, and gives it a deadline for
// the request to come. Whatever is read makes it unfit for that request, because
// it would be taken for the answer.
func (c *conn) state(deadline time.Time) idleState {
	if c.SetDeadline(deadline) != nil {
		return idleClosed
	}
	n, err := c.readNow(deadline)
	switch {
	case n > 0:
		return idleUnasked
	case !errors.Is(err, errWouldBlock):
		return idleClosed
	case c.wire != nil && !c.wire.records.whole():
		return idleUnasked // the beginning of a record
	default:
		return idleReady
	}
}

func (c *conn) readNow(deadline time.Time) (int, error) {
	switch {
	case c.now == nil:
		n, err := c.readSoon()
		_ = c.SetReadDeadline(deadline)
		return n, err
	case c.wire == nil:
		return c.now.read(c.one[:])
	default: // TLS may hold bytes that the socket no longer has
		c.wire.waitless = true
		n, err := c.Read(c.one[:])
		c.wire.waitless = false
		return n, err
	}
}

// readSoon reads with a deadline, where the system offers nothing better.
func (c *conn) readSoon() (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return 0, err
	}
	n, err := c.Read(c.one[:])
	if err != nil && isTimeout(err) {
		err = errWouldBlock
	}
	return n, err
}

// drop closes the connection at once, without a word to the issuer.
func (c *conn) drop() { c.closeOnce(c.socket) }

// retire closes an idle connection, over TLS with the alert that says so.
func (c *conn) retire() { c.closeOnce(c.Conn) }

func (c *conn) closeOnce(side io.Closer) {
	if c.closed.CompareAndSwap(false, true) {
		_ = side.Close()
		c.issuer.connections(-1)
	}
}

// sent returns how many bytes reached the socket when a Write returned n.
func (c *conn) sent(n int) int64 {
	if c.wire != nil {
		return c.wire.written
	}
	return int64(n)
}

// A wire is the socket below TLS. It reads without waiting while waitless is
// set, counts what is written and follows the borders of the records.
type wire struct {
	net.Conn
	now      *nowReader
	waitless bool
	written  int64
	records  records
}

func (w *wire) Read(p []byte) (n int, err error) {
	if w.waitless {
		n, err = w.now.read(p)
	} else {
		n, err = w.Conn.Read(p)
	}
	w.records.pass(p[:n])
	if errors.Is(err, io.EOF) {
		err = errTruncated
	}
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.written += int64(n)
	return n, err
}

// records follows TLS records as they pass, to tell whether one is incomplete
// (RFC 8446, section 5.1).
type records struct {
	header [5]byte
	got    int // bytes of the header
	left   int // bytes of the record
}

func (r *records) pass(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			p, r.left = p[n:], r.left-n
			continue
		}
		n := copy(r.header[r.got:], p)
		p, r.got = p[n:], r.got+n
		if r.got == len(r.header) {
			r.left, r.got = int(r.header[3])<<8|int(r.header[4]), 0
		}
	}
}

func (r *records) whole() bool { return r.got == 0 && r.left == 0 }
