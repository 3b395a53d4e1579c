package node

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// How long a replaced configuration still serves its connections: at most
// drainFor pauses, or until drainQuiet pauses in a row had no request. A
// connection that is quiet for that long gets at most four requests a second, so
// it is unlikely that one is on its way at the end. Pauses are counted instead of
// time, because a process that the system did not run has noticed no requests.
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
//
// An operator takes the whole process out of service in the same way: the load
// balancer sends it no more clients, because /readyz answers 503.
type drain struct {
	Operator atomic.Pointer[time.Time] // until when an operator drains, zero if nobody said; nil: it is in service

	arrivals atomic.Bool // a request to a configuration that is left, since the last pause began
	steered  bool        // whether the newest configuration takes all new connections
}

// ErrDrained is why a gateway is not ready while an operator drains it.
var ErrDrained = errors.New("an operator has taken this gateway out of service (card-node drain)")

// ByOperator reports whether an operator has taken the gateway out of service.
func (d *drain) ByOperator() bool { return d.Operator.Load() != nil }

// Forgotten reports whether the gateway is drained and should be in service: the
// time of the operator's work is over, or none was named.
func (d *drain) Forgotten() bool {
	until := d.Operator.Load()
	return until != nil && !time.Now().Before(*until)
}

// SendsAway notes a request to a configuration, which may be left, and reports whether its answer must
// have Connection: close. Only HTTP/1 needs it.
func (d *drain) SendsAway(left *atomic.Bool, r *http.Request) bool {
	if !left.Load() {
		return false
	}
	d.arrivals.Store(true)
	return r.ProtoMajor == 1
}

// wait returns when draining may end.
func (d *drain) wait(sleep func(time.Duration)) {
	for passed, quiet := 0, 0; passed < drainFor && quiet < drainQuiet; passed++ {
		sleep(drainPause)
		if quiet++; d.arrivals.Swap(false) {
			quiet = 0
		}
	}
}

// leave moves clients away from a configuration that Caddy is about to stop. At that
// time the next configuration already serves, unless the process ends: then leave
// does not wait, because shutdown_delay is the time for that.
func (d *drain) leave(left *atomic.Bool) {
	left.Store(true) // for good: its servers may still answer after its end
	if caddy.Exiting() {
		return
	}
	steer(preferNewest)
	d.steered = true
	d.wait(time.Sleep)
}

// begin undoes the changes of leave to the sockets, before another configuration opens
// its own. Until then they hold: the servers that are left close their sockets some
// time after Caddy has cleaned their configuration up.
func (d *drain) begin() {
	if d.steered {
		steer(leaveToKernel)
		d.steered = false
	}
}

// DrainBefore subscribes the drain to the event that the configuration stops. left is
// set from then on.
func DrainBefore(ctx caddy.Context, left *atomic.Bool) error {
	listenPlainTCP()
	Process.Drain.begin()
	return On(ctx, "stopping", func() { Process.Drain.leave(left) })
}
