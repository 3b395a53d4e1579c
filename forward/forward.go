package forward

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Forwarder sends requests to issuers. It is safe for concurrent use.
type Forwarder struct {
	options Options
	issuers []*issuer
	turn    atomic.Uint64
	random  func(n int) int

	cancel context.CancelFunc
	done   chan struct{} // closed when the maintenance has ended
	checks time.Time     // the next are due then
}

// New returns a forwarder. Without requests it makes no connections, except for
// active checks. The caller calls Close when no more requests begin.
func New(options Options) (*Forwarder, error) {
	f, err := newForwarder(options)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() {
		defer close(f.done)
		defer ticker.Stop()
		f.run(ctx, ticker.C)
	}()
	return f, nil
}

// newForwarder returns a forwarder without its maintenance.
func newForwarder(options Options) (*Forwarder, error) {
	f := &Forwarder{
		options: options.withDefaults(),
		random:  rand.IntN,
		done:    make(chan struct{}),
	}
	if err := f.options.validate(); err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	for i := range f.options.Issuers {
		is, err := newIssuer(&f.options.Issuers[i], &f.options)
		if err != nil {
			return nil, fmt.Errorf("forward: %w", err)
		}
		f.issuers = append(f.issuers, is)
	}
	return f, nil
}

// Close ends the active checks and closes the idle connections. It does not stop
// requests in flight; their connections are closed after them. Later requests
// still work, each on a new connection.
func (f *Forwarder) Close() {
	f.cancel()
	<-f.done
	for _, is := range f.issuers {
		is.shut()
	}
}

// Do sends the request to one issuer and returns the answer when its head has
// arrived. The error is always an *Error.
//
// When Do has returned, the request and its body are no longer read. The
// caller reads the answer to its end or closes it. If the context ends before
// that, the connection is closed, and the issuer notices.
func (f *Forwarder) Do(ctx context.Context, r *Request) (*Answer, error) {
	x := newExchange(ctx, r, &f.options)
	defer x.free()
	if err := x.prepare(); err != nil {
		return nil, err
	}
	var last *Error
	for tried := uint64(0); ; {
		is, at := f.choose(tried)
		if is == nil {
			return nil, f.allOut(last)
		}
		answer, err := x.on(is)
		if err == nil {
			return answer, nil
		}
		if last = err; err.Forwarded || err.Kind != KindDial && err.Kind != KindTLS {
			return nil, err
		}
		tried |= 1 << at
	}
}

// run calls maintain at each tick, until the context ends.
func (f *Forwarder) run(ctx context.Context, ticks <-chan time.Time) {
	for {
		f.maintain(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

// maintain closes connections that have been idle for too long and makes the
// active checks that are due.
func (f *Forwarder) maintain(ctx context.Context) {
	now := f.options.Now()
	for _, is := range f.issuers {
		is.sweep(now)
	}
	if f.options.Check == nil || now.Before(f.checks) {
		return
	}
	var all sync.WaitGroup
	for _, is := range f.issuers {
		all.Go(func() { f.check(ctx, is) })
	}
	all.Wait()
	f.checks = now.Add(f.options.Check.Every)
}
