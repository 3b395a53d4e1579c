package harness

import (
	"sync"
	"sync/atomic"
)

// Load is a number of clients that send until they are stopped.
type Load struct {
	sent    atomic.Int64
	stopped atomic.Bool
	clients sync.WaitGroup
}

// StartLoad starts n clients that call send again and again, with the number of
// the client, from 0, and that of the call, from 1.
func StartLoad(n int, send func(client int, number int64)) *Load {
	l := new(Load)
	for client := range n {
		l.clients.Go(func() {
			for !l.stopped.Load() {
				send(client, l.sent.Add(1))
			}
		})
	}
	return l
}

// Sent returns how many calls have begun.
func (l *Load) Sent() int64 { return l.sent.Load() }

// Stop waits until each client has ended its call.
func (l *Load) Stop() {
	l.stopped.Store(true)
	l.clients.Wait()
}
