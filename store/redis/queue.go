package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

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

// queues holds a queue per server, in the order of arrival.
type queues struct {
	size     int           // calls to one server at once
	patience time.Duration // how long one call may wait
	observe  func(QueueEvent)
	all      sync.Map // of server address to *queue
}

type queue struct {
	*queues
	turns   *semaphore.Weighted
	waiting atomic.Int64
}

func (q *queues) at(server string) *queue {
	if found, ok := q.all.Load(server); ok {
		return found.(*queue)
	}
	found, _ := q.all.LoadOrStore(server, &queue{queues: q, turns: semaphore.NewWeighted(int64(q.size))})
	return found.(*queue)
}

// enter waits for a turn. A caller that gets nil must leave.
func (q *queue) enter(ctx context.Context) error {
	if q.turns.TryAcquire(1) {
		return nil
	}
	defer q.waiting.Add(-1)
	if q.waiting.Add(1) > int64(q.size*queuePerConnection) {
		q.observe(QueueFull)
		return errQueueFull
	}
	q.observe(QueueWaits)
	ctx, cancel := context.WithTimeoutCause(ctx, q.patience, errQueueLate)
	defer cancel()
	if q.turns.Acquire(ctx, 1) != nil {
		q.observe(QueueLate)
		return context.Cause(ctx)
	}
	q.observe(QueueLeft)
	return nil
}

func (q *queue) leave() { q.turns.Release(1) }
