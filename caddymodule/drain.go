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
	// drainFor is how long a replaced configuration still serves its
	// connections. After drainQuiet without a request it stops sooner. A
	// connection that is quiet for that long gets at most four requests a second,
	// so it is unlikely that one is on its way at the end.
	drainFor   = 5 * time.Second
	drainQuiet = 250 * time.Millisecond
)

// drain moves clients away from a configuration before its servers stop. A
// server that stops closes its idle connections at once, even if a request is on
// its way on one of them; that client gets no answer. An answer with
// Connection: close makes the client open a new connection first, which the next
// configuration serves.
type drain struct {
	on      atomic.Bool
	last    atomic.Int64 // when the last request came, in Unix nanoseconds
	steered bool         // whether the next configuration takes all new connections
}

// sendsAway notes a request, and reports whether its answer must have
// Connection: close. Only HTTP/1 needs it.
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

// Handle is part of caddyevents.Handler. It drains the configuration when Caddy
// emits the event that it stops. At that time the next configuration already
// serves, unless the process ends: then Handle does not wait, because
// shutdown_delay is the time for that.
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

// end undoes the changes of Handle to the sockets of the next configuration. At
// that time the servers of this configuration no longer listen.
func (d *drain) end() {
	if d.steered {
		steer(leaveToKernel)
	}
}

// drainBefore subscribes the drain to the event that its configuration stops.
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
