package caddymodule

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// How long a configuration that another one replaces goes on to serve its
// connections: drainFor pauses at most, and drainQuiet in a row without a
// request. Connections that are quiet for as long bring at most four requests a
// second, so that hardly one is under way at the end. Pauses are counted, and
// not time: a process that the system did not run has seen no quiet.
const (
	drainPause = 25 * time.Millisecond
	drainQuiet = 10
	drainFor   = 200
)

// drain moves clients away from a configuration before its servers stop. A
// server that stops closes its idle connections at once, even if a request is on
// its way on one of them; that client gets no answer. An answer with
// Connection: close makes the client open a new connection first, which the next
// configuration serves.
type drain struct {
	on      atomic.Bool
	came    atomic.Bool // a request, since the last pause began
	steered bool        // whether the next configuration takes all new connections
}

// sendsAway notes a request, and reports whether its answer must have
// Connection: close. Only HTTP/1 needs it.
func (d *drain) sendsAway(r *http.Request) bool {
	if !d.on.Load() {
		return false
	}
	d.came.Store(true)
	return r.ProtoMajor == 1
}

// wait returns when draining may end.
func (d *drain) wait(sleep func(time.Duration)) {
	for passed, quiet := 0, 0; passed < drainFor && quiet < drainQuiet; passed++ {
		sleep(drainPause)
		if quiet++; d.came.Swap(false) {
			quiet = 0
		}
	}
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
	d.wait(time.Sleep)
	return nil
}

// end undoes what Handle did to the sockets of the next configuration. The
// servers of this one listen no more.
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
