package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/share"
)

// An issuer is one upstream with its connections.
type issuer struct {
	name, network, address string
	host                   string      // for requests without a Host
	secure                 *tls.Config // nil: plain
	options                *Options
	dialer                 func(ctx context.Context, network, address string) (net.Conn, error)
	health                 health
	out                    bool // as the observer was told; of the maintenance alone

	outstanding atomic.Int64
	slots       *share.Pool // of connections; nil: no limit

	mu     sync.Mutex
	idle   []*conn // newest last
	closed bool
}

func newIssuer(spec *Issuer, options *Options) (*issuer, error) {
	usual := ":80"
	if options.TLS != nil {
		usual = ":443"
	}
	network, address, host, err := spec.endpoint(usual)
	if err != nil {
		return nil, err
	}
	is := &issuer{
		name: spec.Address, network: network, address: address, host: host,
		options: options, dialer: new(net.Dialer).DialContext,
	}
	is.health.after, is.health.span = options.FailAfter, options.FailFor
	if options.MaxConnections > 0 {
		is.slots = share.NewPool(share.Rule{Limit: int64(options.MaxConnections)})
	}
	if options.TLS == nil {
		return is, nil
	}
	is.secure, err = options.TLS.config(func(text string) { is.report(KindCertificate, text) })
	if err != nil {
		return nil, err
	}
	is.secure.ServerName = options.TLS.ServerName
	if name, _, err := net.SplitHostPort(address); err == nil && is.secure.ServerName == "" {
		is.secure.ServerName = name
	}
	if is.secure.ServerName == "" {
		is.secure.ServerName = host // of a socket
	}
	return is, nil
}

// failed returns an error about this issuer.
func (is *issuer) failed(kind Kind, text string) *Error {
	return &Error{Kind: kind, Issuer: is.name, Text: text}
}

// report gives the observer a fault that has failed no request.
func (is *issuer) report(kind Kind, text string) {
	is.options.Observer.Problem(is.failed(kind, text))
}

func (is *issuer) connections(delta int) { is.options.Observer.Connections(is.name, delta) }

// inFlight counts a request of which the issuer was chosen, or whose answer has ended.
func (is *issuer) inFlight(delta int) {
	is.outstanding.Add(int64(delta))
	is.options.Observer.InFlight(is.name, delta)
}

// count gives the observer what a request came to, unless that shows nothing of the
// issuer: the client has gone, or the request waited for a connection.
func (is *issuer) count(answer *Answer, err *Error, took time.Duration) {
	switch {
	case err == nil:
		is.options.Observer.Answered(is.name, answer.Status, nil, took)
	case err.fault(), err.Kind == KindTimeout && !err.ended:
		is.options.Observer.Answered(is.name, 0, err, took)
	}
}

// countOut gives the observer whether the issuer is out, and for how long it was since the
// last call.
func (is *issuer) countOut(lasted time.Duration) {
	was := is.out
	switch is.out = is.health.lost(); {
	case is.out && !was:
		is.options.Observer.Out(is.name, +1, 0)
	case was && !is.out:
		is.options.Observer.Out(is.name, -1, lasted)
	case was:
		is.options.Observer.Out(is.name, 0, lasted)
	}
}

// enter waits for the right to use a connection. Every enter that returns nil
// is followed by one leave of the same caller.
func (is *issuer) enter(ctx context.Context, by *share.Caller) *Error {
	is.inFlight(+1)
	if is.slots == nil || is.slots.Take(by, 1, share.Started) == share.Granted {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, is.options.DialTimeout)
	defer cancel()
	if is.slots.Wait(bounded, by) == share.Granted {
		return nil
	}
	is.inFlight(-1)
	if err := ended(ctx); err != nil {
		err.Issuer = is.name
		return err
	}
	err := is.failed(KindBusy, "every connection that this tenant may use was in use for too long")
	err.RetryAfter = time.Second
	return err
}

func (is *issuer) leave(by *share.Caller) {
	is.inFlight(-1)
	if is.slots != nil {
		is.slots.Give(by, 1)
	}
}

// take returns the newest idle connection that a request can use, or nil. It
// closes newer ones that cannot be used.
func (is *issuer) take() *conn {
	for {
		is.mu.Lock()
		last := len(is.idle) - 1
		if last < 0 {
			is.mu.Unlock()
			return nil
		}
		c := is.idle[last]
		is.idle[last] = nil
		is.idle = is.idle[:last]
		is.mu.Unlock()
		if is.expired(c, is.options.Now()) {
			c.retire()
			continue
		}
		switch c.state(time.Now().Add(is.options.AnswerTimeout)) {
		case idleReady:
			return c
		case idleUnasked:
			is.report(KindUnasked, "the issuer sent something on an idle connection")
		}
		c.drop()
	}
}

// put keeps a connection for the next request.
func (is *issuer) put(c *conn) {
	c.reused, c.since = true, is.options.Now()
	is.mu.Lock()
	if is.closed {
		is.mu.Unlock()
		c.retire()
		return
	}
	is.idle = append(is.idle, c)
	is.mu.Unlock()
}

func (is *issuer) expired(c *conn, now time.Time) bool {
	return now.Sub(c.since) >= is.options.IdleTimeout || now.After(c.until)
}

// sweep closes the connections that have been idle for too long.
func (is *issuer) sweep(now time.Time) {
	is.mu.Lock()
	n := 0
	for n < len(is.idle) && is.expired(is.idle[n], now) {
		n++
	}
	old := slices.Clone(is.idle[:n])
	is.idle = slices.Delete(is.idle, 0, n)
	is.mu.Unlock()
	for _, c := range old {
		c.retire()
	}
}

// shut closes the idle connections now, and each of the others after its request.
func (is *issuer) shut() {
	is.mu.Lock()
	idle := is.idle
	is.idle, is.closed = nil, true
	is.mu.Unlock()
	for _, c := range idle {
		c.retire()
	}
	if is.out {
		is.out = false
		is.options.Observer.Out(is.name, -1, 0)
	}
}

// dial makes a new connection, including its TLS handshake.
func (is *issuer) dial(ctx context.Context) (*conn, *Error) {
	ctx, cancel := context.WithTimeout(ctx, is.options.DialTimeout)
	defer cancel()
	socket, err := is.dialer(ctx, is.network, is.address)
	if err != nil {
		return nil, is.dialFailed(KindDial, dialText(err), err)
	}
	c := newConn(is, socket)
	c.until = is.options.Now().Add(maxAge/2 + rand.N(maxAge/2)) //nolint:gosec // no secret
	if is.secure != nil {
		if err := c.secure(is.secure).HandshakeContext(ctx); err != nil {
			_ = socket.Close()
			return nil, is.dialFailed(KindTLS, tlsText(err), err)
		}
	}
	is.connections(+1)
	if c.SetDeadline(time.Now().Add(is.options.AnswerTimeout)) != nil {
		c.drop()
		return nil, is.failed(KindDial, "the connection broke at once")
	}
	return c, nil
}

func (is *issuer) dialFailed(kind Kind, text string, err error) *Error {
	e := is.failed(kind, text)
	if isTimeout(err) {
		e.pace = slow
	}
	return e
}

// maxAge is how long a connection is used at most, and at least half as long: what a name
// resolves to may change while the server of before goes on. They do not all end at once.
const maxAge = 2 * time.Minute

// A conn is one connection to an issuer. One request uses it at a time.
type conn struct {
	net.Conn            // the side that requests are written to: the socket, or TLS over it
	socket   net.Conn   // what is below TLS, else the same
	now      *nowReader // reads the socket without waiting; nil if the system cannot do that
	wire     *wire      // between TLS and the socket; nil without TLS
	issuer   *issuer
	abort    func()    // closes the socket at once; safe from any goroutine
	reused   bool      // an answer was read from it before
	since    time.Time // it became idle
	until    time.Time // it is not used for another request after this
	one      [1]byte
	closed   atomic.Bool
}

// newConn wraps a socket. Call secure afterwards for TLS.
func newConn(is *issuer, socket net.Conn) *conn {
	c := &conn{Conn: socket, socket: socket, now: newNowReader(socket), issuer: is}
	c.abort = func() { _ = socket.Close() }
	return c
}

// secure puts TLS over the socket. The caller makes the handshake.
func (c *conn) secure(config *tls.Config) *tls.Conn {
	c.wire = &wire{Conn: c.socket, now: c.now}
	secured := tls.Client(c.wire, config)
	c.Conn = secured
	return secured
}

// errTruncated is the end of a socket without the alert that ends TLS. For
// crypto/tls it would be an ordinary end, but an attacker on the network can
// cause it.
var errTruncated = errors.New("the connection ended without an alert")

// idleState is what the check of an idle connection finds.
type idleState uint8

const (
	idleReady   idleState = iota // it may be used
	idleClosed                   // the issuer has closed it
	idleUnasked                  // the issuer has sent something on it
)

// state reads the idle connection without waiting, and sets its deadline for the
// next request. If it reads any byte, the connection cannot be used for that
// request, because the byte would be taken for its answer.
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

// readSoon reads with a short deadline, if the system cannot read without
// waiting.
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

// drop closes the connection at once, without the closing alert of TLS.
func (c *conn) drop() { c.closeOnce(c.socket) }

// retire closes an idle connection, with the closing alert of TLS.
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

// errWouldBlock is the error of a read without waiting when no byte has arrived.
// It is temporary, so that crypto/tls can be used afterwards.
var errWouldBlock error = wouldBlockError{}

type wouldBlockError struct{}

func (wouldBlockError) Error() string { return "nothing to read now" }

func (wouldBlockError) Timeout() bool { return true }

func (wouldBlockError) Temporary() bool { return true }
