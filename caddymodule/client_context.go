package caddymodule

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/platform"
)

// socketKey is the key of a connection's socket in the contexts of its requests.
type socketKey struct{}

// withSocket adds the socket of a connection to its context.
func withSocket(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, socketKey{}, peek.Connection(c))
}

// A clientContext is the context of a request that has arrived whole over HTTP/1. It ends
// when the client has gone, and not when the client has only closed its side. net/http
// ends its context with both, and only then the socket is asked. A second context is made
// for the first who waits: card_forward uses AfterFunc, which needs none.
type clientContext struct {
	context.Context // of net/http
	socket          syscall.RawConn

	mu      sync.Mutex
	over    bool
	watched context.Context // nil: nobody has waited
	cancel  context.CancelCauseFunc
	stop    func() bool
}

// waitForClient gives a request that has arrived whole a context of its client, if the
// socket is known.
func (c *clientContext) waitForClient(r *http.Request) {
	socket, _ := r.Context().Value(socketKey{}).(syscall.RawConn)
	if r.ProtoMajor == 1 && socket != nil {
		c.Context, c.socket = r.Context(), socket
		*r = *r.WithContext(c)
	}
}

// end ends the context with the request.
func (c *clientContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.watched != nil {
		c.stop()
		c.cancel(nil)
	}
}

func (c *clientContext) watch() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched == nil {
		c.watched, c.cancel = context.WithCancelCause(context.WithoutCancel(c.Context))
		c.stop = context.AfterFunc(c.Context, c.askSocket)
		if c.over {
			c.cancel(nil)
		}
	}
	return c.watched
}

// askSocket is called when net/http has read an end, or the server closes the connection.
func (c *clientContext) askSocket() {
	for errors.Is(context.Cause(c.Context), context.Canceled) && platform.HalfOpen(c.socket) {
		select {
		case <-c.watched.Done():
			return
		case <-time.After(time.Second):
		}
	}
	c.cancel(context.Cause(c.Context))
}

// Done is part of context.Context.
func (c *clientContext) Done() <-chan struct{} { return c.watch().Done() }

// Err is part of context.Context.
func (c *clientContext) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return c.watch().Err()
}

// Value is part of context.Context.
func (c *clientContext) Value(key any) any {
	c.mu.Lock()
	ctx := c.watched
	c.mu.Unlock()
	if ctx == nil {
		ctx = c.Context
	}
	return ctx.Value(key)
}

// AfterFunc is what context.AfterFunc calls. After net/http's context has ended the
// returned function reports false, although f is only called when the client has gone.
func (c *clientContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.Context, func() { context.AfterFunc(c.watch(), f) })
}
