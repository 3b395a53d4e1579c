package faults

import (
	"sync"
	"sync/atomic"
	"time"
)

// A control measures how late a timer is on this machine. What a plain client of
// the servers meets, and how late the machine is, are not to be blamed on a gateway.
type control struct {
	late  atomic.Int64 // nanoseconds, the most so far
	stop  chan struct{}
	tasks sync.WaitGroup
}

// controlPause is between two ticks of the control.
const controlPause = 10 * time.Millisecond

func startControl() *control {
	c := &control{stop: make(chan struct{})}
	c.tasks.Go(func() {
		tick := time.NewTicker(controlPause)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-c.stop:
				return
			case <-tick.C:
			}
			now := time.Now()
			c.late.Store(max(c.late.Load(), int64(now.Sub(last)-controlPause)))
			last = now
		}
	})
	return c
}

func (c *control) end() {
	close(c.stop)
	c.tasks.Wait()
}

// lateSteps is how many steps, one after the other, may each be as late as the
// control was, before a bound is broken. A step is a gateway, a link or a server
// that gets the CPU. A recovery is about as many: a dial, a check, a trial of the
// breaker and a request. On a machine that has nothing else to do, a tick is late
// by a few milliseconds.
const lateSteps = 20

// allowed is a bound on this machine.
func (c *control) allowed(bound time.Duration) time.Duration {
	return bound + lateSteps*c.latest()
}

// starves reports whether so many steps may take longer than a gateway waits for
// an answer of Redis. Then it may have taken a pause of this machine for silence.
func (b *bench) starves(steps int) bool {
	patience := 100 * time.Millisecond // the default of io_timeout
	if b.block == patient {
		patience = patientIO
	}
	return time.Duration(steps)*b.control.latest() > patience
}

// latest is how late a tick was, at the most.
func (c *control) latest() time.Duration { return time.Duration(c.late.Load()) }

// served waits until a plain client of the servers is served for every key, and
// returns when that was.
func (b *bench) served() time.Time {
	b.t.Helper()
	if b.servers == nil {
		return time.Now()
	}
	for _, key := range b.keys {
		eventually(b.t, "a plain client is served", func() bool { return b.servers.Serve(key) })
	}
	return time.Now()
}
