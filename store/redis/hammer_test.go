package redis

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// A hammer sends new requests through several gateways without pause, and
// repeats those that were accepted. No request may be accepted twice.
type hammer struct {
	t      testing.TB
	stores []*Store
	keys   []*store.Record
	stop   chan struct{}
	tasks  sync.WaitGroup

	accepted, refused, failed atomic.Int64

	mu   sync.Mutex
	done []*store.Claim // accepted ones
	errs map[string]int
}

func startHammer(t testing.TB, stores []*Store, keys []*store.Record) *hammer {
	h := &hammer{t: t, stores: stores, keys: keys, stop: make(chan struct{}), errs: map[string]int{}}
	for range 4 {
		h.tasks.Go(h.fresh)
		h.tasks.Go(h.replay)
	}
	t.Cleanup(h.end)
	return h
}

// fresh sends new requests, some stamped a little ahead.
func (h *hammer) fresh() {
	for h.running() {
		c := newClaim(h.keys[rand.IntN(len(h.keys))])
		c.Timestamp += rand.Int64N(5)
		if v, err := h.settle(c); err == nil && v.Reason == auth.Accepted && !v.Stale {
			h.accepted.Add(1)
			h.mu.Lock()
			h.done = append(h.done, c)
			h.mu.Unlock()
		}
		time.Sleep(time.Millisecond)
	}
}

func (h *hammer) replay() {
	for h.running() {
		h.mu.Lock()
		var c *store.Claim
		if n := len(h.done); n > 0 {
			c = h.done[n-1-rand.IntN(min(n, 1000))]
		}
		h.mu.Unlock()
		if c != nil {
			h.once(c)
		}
		time.Sleep(time.Millisecond)
	}
}

// once repeats an accepted request.
func (h *hammer) once(c *store.Claim) {
	v, err := h.settle(again(c))
	switch {
	case err != nil:
	case v.Stale:
		h.t.Errorf("the key is gone")
	case v.Reason == auth.Accepted:
		h.t.Errorf("a request stamped %v was accepted twice, now at %v", time.Unix(c.Timestamp, 0), time.Now())
	default:
		h.refused.Add(1)
	}
}

func (h *hammer) settle(c *store.Claim) (store.Verdict, error) {
	v, err := h.stores[rand.IntN(len(h.stores))].Settle(ctx, c)
	if err != nil {
		h.failed.Add(1)
		h.mu.Lock()
		h.errs[err.Error()]++
		h.mu.Unlock()
		if !errors.Is(err, store.ErrUnavailable) {
			h.t.Errorf("%v, want ErrUnavailable", err)
		}
	}
	return v, err
}

func (h *hammer) running() bool {
	select {
	case <-h.stop:
		return false
	default:
		return true
	}
}

func (h *hammer) end() {
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
	h.tasks.Wait()
}

// finish stops the hammer, and repeats everything that was accepted.
func (h *hammer) finish() {
	h.t.Helper()
	h.end()
	for _, c := range h.done {
		h.once(c)
	}
	if h.accepted.Load() == 0 || h.refused.Load() == 0 {
		h.t.Errorf("%d accepted, %d replays refused; the test shows nothing", h.accepted.Load(), h.refused.Load())
	}
	h.t.Logf("%d accepted, %d replays refused, %d unavailable: %v", h.accepted.Load(), h.refused.Load(), h.failed.Load(), h.errs)
}
