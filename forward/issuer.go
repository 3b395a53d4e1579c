package forward

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An issuer is one upstream with its connections.
type issuer struct {
	name, network, address string
	host                   string      // for requests without a Host
	secure                 *tls.Config // nil: plain
	options                *Options
	dialer                 func(ctx context.Context, network, address string) (net.Conn, error)
	health                 health

	outstanding atomic.Int64
	slots       chan struct{} // one element per connection in use; nil: no limit

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
		is.slots = make(chan struct{}, options.MaxConnections)
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
	is.observe(is.failed(kind, text))
}

func (is *issuer) observe(e *Error) {
	if is.options.Observer.Problem != nil {
		is.options.Observer.Problem(e)
	}
}

func (is *issuer) connections(delta int) {
	if is.options.Observer.Connections != nil {
		is.options.Observer.Connections(is.name, delta)
	}
}

// enter waits for the right to use a connection. Every enter that returns nil
// is followed by one leave.
func (is *issuer) enter(ctx context.Context) *Error {
	is.outstanding.Add(1)
	if is.slots == nil {
		return nil
	}
	select {
	case is.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(is.options.DialTimeout)
	defer timer.Stop()
	var err *Error
	select {
	case is.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		err = ended(ctx)
		err.Issuer = is.name
	case <-timer.C:
		err = is.failed(KindBusy, "every connection was in use for too long")
		err.RetryAfter = time.Second
	}
	is.outstanding.Add(-1)
	return err
}

func (is *issuer) leave() {
	is.outstanding.Add(-1)
	if is.slots != nil {
		<-is.slots
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
	return now.Sub(c.since) >= is.options.IdleTimeout
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
