package caddymodule

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

const (
	// drainFor is how long a configuration that another one replaces goes on to
	// serve its connections, and drainQuiet after how much time without a
	// request it stops sooner. Connections that are quiet for as long bring at
	// most four requests a second, so that hardly one is under way at the end.
	drainFor   = 5 * time.Second
	drainQuiet = 250 * time.Millisecond
)

// drain sends clients away from a configuration before its servers stop. Those
// close their idle connections at once, also one on which a request is under
// way to them: the client then gets no answer. An answer with Connection: close
// makes it open another connection before, which the next configuration serves.
type drain struct {
	on      atomic.Bool
	last    atomic.Int64 // when the last request came, in Unix nanoseconds
	steered bool         // whether the next configuration takes all new connections
}

// sendsAway notes a request, and reports whether its answer must ask the client
// to close the connection. Other versions of HTTP need no such answer.
func (d *drain) sendsAway(r *http.Request) bool {
	if !d.on.Load() {
		return false
	}
	d.last.Store(time.Now().UnixNano())
	return r.ProtoMajor == 1
}

// over reports whether draining that began at a moment may end at now.
func (d *drain) over(began, now time.Time) bool {
	last := began
	if at := d.last.Load(); at > last.UnixNano() {
		last = time.Unix(0, at)
	}
	return now.Sub(began) >= drainFor || now.Sub(last) >= drainQuiet
}

// Handle is part of caddyevents.Handler, for the event that Caddy emits before
// it stops a configuration. The next one serves already, unless the process
// ends: then shutdown_delay says how long there is.
func (d *drain) Handle(context.Context, caddy.Event) error {
	if caddy.Exiting() {
		d.on.Store(true)
		return nil
	}
	steer(preferNewest)
	d.steered = true
	d.on.Store(true)
	for began := time.Now(); !d.over(began, time.Now()); {
		time.Sleep(drainQuiet / 10)
	}
	return nil
}

// end undoes what Handle did to the sockets of the next configuration. The
// servers of this one listen no more.
func (d *drain) end() {
	if d.steered {
		steer(leaveToKernel)
	}
}

// drainBefore has the events of a configuration call the drain before it stops.
func drainBefore(ctx caddy.Context, d *drain) error {
	listenPlainTCP()
	module, err := ctx.App("events")
	if err != nil {
		return err
	}
	if events, ok := module.(*caddyevents.App); ok {
		return events.On("stopping", d)
	}
	return nil
}
