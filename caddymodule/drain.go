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

// drain sends clients away from a configuration before its servers stop. Those
// close their idle connections at once, also one on which a request is under
// way to them: the client then gets no answer. An answer with Connection: close
// makes it open another connection before, which the next configuration serves.
type drain struct {
	on      atomic.Bool
	came    atomic.Bool // a request, since the last pause began
	steered bool        // whether the next configuration takes all new connections
}

// sendsAway notes a request, and reports whether its answer must ask the client
// to close the connection. Other versions of HTTP need no such answer.
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
