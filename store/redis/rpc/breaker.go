package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"
)

const (
	// breakerFailures in a row are needed to open a breaker.
	breakerFailures = 5
	// breakerSilence without any reply is needed too. So a moment without a CPU,
	// here or at the server, does not open a breaker.
	breakerSilence = 500 * time.Millisecond
	// breakerPause is how long an open breaker refuses calls before the next try.
	breakerPause = 300 * time.Millisecond
)

// ErrOpen means that a call was not sent, because its server has not answered for a
// while.
var ErrOpen = errors.New("it has not answered for a while, and is tried again in a moment")

// A Breaker is open while its server does not answer, so that a call costs
// microseconds in an outage. It stays closed while the server sends any reply,
// even errors. So slow calls, and failures of one key, affect no other calls.
type Breaker struct {
	log    *slog.Logger
	server string // its name in the log

	mu           sync.Mutex
	failures     int       // calls in a row without a reply
	since, heard time.Time // of the first of these calls; of the last reply
	next         time.Time // when an open one tries a call again; zero: it is closed
	trying       bool      // that call is under way
	cause        string    // why the first of the failures failed
}

// Open reports whether a call would be refused.
func (b *Breaker) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.next)
}

// Refused returns [ErrOpen], wrapped, with the server, since when it has not answered, and
// the first failure since then.
func (b *Breaker) Refused() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() { // it has just answered
		return ErrOpen
	}
	return fmt.Errorf("%w (%s, since %s: %s)", ErrOpen, b.server, b.since.UTC().Format(time.RFC3339), b.cause)
}

// run sends a command unless the breaker is open.
func (b *Breaker) run(send func() error) error {
	begun := time.Now()
	may, trial := b.admit(begun)
	if !may {
		return b.Refused()
	}
	err := send()
	b.note(begun, trial, err)
	return err
}

// admit reports whether a call may be sent, and whether it is the trial of an open
// breaker.
func (b *Breaker) admit(now time.Time) (may, trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next.IsZero() {
		return true, false
	}
	if now.Before(b.next) || b.trying {
		return false, false
	}
	b.trying = true
	return true, true
}

// note notes the result of a call, and when the call began.
func (b *Breaker) note(begun time.Time, trial bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, open := time.Now(), !b.next.IsZero()
	b.trying = b.trying && !trial
	switch {
	case answered(err):
		b.failures, b.since, b.heard, b.next = 0, time.Time{}, now, time.Time{}
		if open {
			b.log.Warn("redis answers again", "server", b.server)
		}
		return
	case saysNothing(err):
		return
	}
	if b.failures++; b.since.IsZero() {
		b.cause = err.Error()
		if b.since = begun; b.heard.After(begun) {
			b.since = b.heard
		}
	}
	switch {
	case trial:
		b.next = now.Add(breakerPause)
	case !open && b.failures >= breakerFailures && now.Sub(b.since) >= breakerSilence:
		b.next = now.Add(breakerPause)
		b.log.Warn("redis does not answer; its requests are refused until it does", "server", b.server)
	}
}

// servers holds what is known of each server, so that the failure of one master does not
// affect the others.
type servers struct {
	opt *Options
	all perServer[*server]
}

// A server has a breaker, and a queue in front of it.
type server struct {
	Breaker
	queue
}

func (s *servers) at(addr string) *server {
	return s.all.at(addr, func() *server {
		return &server{Breaker{log: s.opt.Logger, server: addr}, queue{opt: s.opt, turns: semaphore.NewWeighted(int64(s.opt.PoolSize))}}
	})
}

// A perServer holds a value for each server, by its address.
type perServer[T any] struct{ all sync.Map }

// at returns the value of the server. It is made when it is first needed.
func (p *perServer[T]) at(server string, make func() T) T {
	found, ok := p.all.Load(server)
	if !ok {
		found, _ = p.all.LoadOrStore(server, make())
	}
	return found.(T)
}

// answered reports whether the server has replied, even with an error.
func answered(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}

// saysNothing reports whether the error shows nothing about the server: the caller
// has left, or the call got no connection in time. If the server was the reason,
// the calls that have the connections fail and are noted.
func saysNothing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrPoolTimeout)
}

// A QueueEvent is an event of a call that did not get a connection at once,
// because all connections of the pool were in use.
type QueueEvent int

// The events. A call waits from QueueWaits to QueueLeft or QueueLate; one that
// meets QueueFull never waited.
const (
	QueueWaits QueueEvent = iota // it begins to wait
	QueueLeft                    // it has got its turn
	QueueLate                    // it got no turn in time
	QueueFull                    // too many waited already
)

// queuePerConnection is how many calls may wait for each connection of a pool.
// A healthy server needs about 2 ms for them.
const queuePerConnection = 64

var (
	errQueueFull = errors.New("too many calls wait for a connection")
	errQueueLate = errors.New("no connection became free in time")
)

// A queue lets as many calls as there are connections go to a server, in the order of
// arrival.
type queue struct {
	opt     *Options
	turns   *semaphore.Weighted
	waiting atomic.Int64
}

// enter waits for a turn. A caller that gets nil must leave.
func (q *queue) enter(ctx context.Context) error {
	if q.turns.TryAcquire(1) {
		return nil
	}
	defer q.waiting.Add(-1)
	if q.waiting.Add(1) > int64(q.opt.PoolSize*queuePerConnection) {
		q.opt.Queue(QueueFull)
		return errQueueFull
	}
	q.opt.Queue(QueueWaits)
	ctx, cancel := context.WithTimeoutCause(ctx, q.opt.IOTimeout, errQueueLate)
	defer cancel()
	if q.turns.Acquire(ctx, 1) != nil {
		q.opt.Queue(QueueLate)
		return context.Cause(ctx)
	}
	q.opt.Queue(QueueLeft)
	return nil
}

func (q *queue) leave() { q.turns.Release(1) }
