package request

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/platform"
)

// socketKey is the key of a connection's socket in the contexts of its requests.
type socketKey struct{}

// WithSocket adds the socket of a connection to its context.
func WithSocket(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, socketKey{}, peek.Connection(c))
}

type contextKey int

const gatewayKey contextKey = 0

// A Carried is the context of a request behind the gateway's first handler, and what its
// handlers have put there. There is one for card_rate_limit and the card_auth behind it,
// because each change of the context copies the request.
//
// Once the request has arrived whole over HTTP/1, the context ends when the client has
// gone, and not when the client has only closed its side. net/http ends its context with
// both, and only then the socket is asked. A second context is made for the first who
// waits: card_forward uses AfterFunc, which needs none.
type Carried struct {
	context.Context                   // of net/http
	info            *Info             // of card_auth; nil until it runs
	Limits          *RateLimitOptions // how limits apply; nil: not at all
	Judged          bool              // card_auth has read limits

	watched atomic.Pointer[context.Context] // nil: nobody has waited

	mu     sync.Mutex
	socket syscall.RawConn // nil: it is that of net/http
	over   bool
	cancel context.CancelCauseFunc
	stop   func() bool
}

// carriedBy returns what the request carries, or nil.
func carriedBy(ctx context.Context) *Carried {
	c, _ := ctx.Value(gatewayKey).(*Carried)
	return c
}

// With returns the request with c as its context.
func (c *Carried) With(r *http.Request) *http.Request {
	c.Context = r.Context()
	return r.WithContext(c)
}

// From returns what card_auth knows of the request, or nil when card_auth
// did not run before.
func From(ctx context.Context) *Info {
	if c := carriedBy(ctx); c != nil {
		return c.info
	}
	return nil
}

// With returns the request with the info in its context.
func With(r *http.Request, info *Info) *http.Request {
	c := carriedBy(r.Context())
	if c == nil || c.info != nil { // of another card_auth
		return (&Carried{info: info}).With(r)
	}
	c.info = info
	return r
}

// LimitsOf returns how limits apply to the request; nil if they do not.
func LimitsOf(ctx context.Context) *RateLimitOptions {
	use := carriedBy(ctx)
	if use == nil || use.Limits == nil {
		return nil
	}
	use.Judged = true
	return use.Limits
}

// WaitForClient gives a request that has arrived whole a context of its client, if the
// socket is known; else it returns nil. The context is ended with the request.
func WaitForClient(r *http.Request) *Carried {
	socket, _ := r.Context().Value(socketKey{}).(syscall.RawConn)
	if r.ProtoMajor != 1 || socket == nil {
		return nil
	}
	c, is := r.Context().(*Carried)
	if !is { // another handler has put its own around it
		before := carriedBy(r.Context())
		c = &Carried{info: before.info, Limits: before.Limits, Judged: before.Judged}
		*r = *c.With(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.socket = socket
	return c
}

// End ends the context with the request.
func (c *Carried) End() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.watched.Load() != nil {
		c.stop()
		c.cancel(nil)
	}
}

// watch returns the context of the client, or that of net/http.
func (c *Carried) watch() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.socket == nil {
		return c.Context
	}
	if known := c.watched.Load(); known != nil {
		return *known
	}
	watched, cancel := context.WithCancelCause(context.WithoutCancel(c.Context))
	c.cancel = cancel
	c.watched.Store(&watched)
	c.stop = context.AfterFunc(c.Context, func() { c.askSocket(watched) })
	if c.over {
		c.cancel(nil)
	}
	return watched
}

// askSocket is called when net/http has read an end, or the server closes the connection.
func (c *Carried) askSocket(watched context.Context) {
	for errors.Is(context.Cause(c.Context), context.Canceled) && platform.HalfOpen(c.socket) {
		select {
		case <-watched.Done():
			return
		case <-time.After(time.Second):
		}
	}
	c.cancel(context.Cause(c.Context))
}

// Done is part of context.Context.
func (c *Carried) Done() <-chan struct{} { return c.watch().Done() }

// Err is part of context.Context.
func (c *Carried) Err() error {
	if err := c.Context.Err(); err == nil {
		return nil
	}
	return c.watch().Err()
}

// Value is part of context.Context.
func (c *Carried) Value(key any) any {
	if key == gatewayKey {
		return c
	}
	if watched := c.watched.Load(); watched != nil {
		return (*watched).Value(key)
	}
	return c.Context.Value(key)
}

// AfterFunc is what context.AfterFunc calls. After net/http's context has ended the
// returned function reports false, although f is only called when the client has gone.
func (c *Carried) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.Context, func() { context.AfterFunc(c.watch(), f) })
}
