package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// Errors that are replies of the server, and errors without a reply.
var (
	errReply   = redisError("WRONGTYPE of one key")
	errTimeout = errors.New("i/o timeout")
)

type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

// An instant of a script: some time after the one before, a call ends that has
// taken some time.
type instant struct {
	after, took time.Duration
	err         error
	want        state // after it
}

const ms = time.Millisecond

// A state is what a breaker does with the next call: it sends it, refuses it, or sends it
// as a trial.
type state string

const closed, open, half state = "closed", "open", "half open"

func stateOf(b *Breaker) state {
	switch {
	case b.Open():
		return open
	case !b.next.IsZero():
		return half
	default:
		return closed
	}
}

// A breaker opens when its server has sent nothing for a while. It does not
// open because calls are slow or fail.
func TestBreaker(t *testing.T) {
	timeout := func(after time.Duration, want state) instant {
		return instant{after, 100 * ms, errTimeout, want}
	}
	for name, script := range map[string][]instant{
		"silence": {
			timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, open),
			{after: 299 * ms, want: open}, {after: 2 * ms, want: closed},
		},
		"a trial in vain": {
			timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, open),
			timeout(301*ms, open), {after: 301 * ms, want: closed},
		},
		"a trial that got no connection": {
			timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, open),
			{301 * ms, 0, redis.ErrPoolTimeout, half}, {0, 0, nil, closed},
		},
		"one moment without a CPU": {
			timeout(0, closed), {0, 0, errTimeout, closed}, {0, 0, errTimeout, closed}, {0, 0, errTimeout, closed},
			{0, 0, errTimeout, closed}, {0, 0, errTimeout, closed}, {50 * ms, 0, nil, closed}, timeout(0, closed),
		},
		"slow calls beside a reply now and then": {
			timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, closed), {0, 0, nil, closed},
			timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, closed), {0, 0, errReply, closed},
			timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, closed), timeout(0, open),
		},
		"replies of errors": {
			{0, 0, errReply, closed}, {0, 0, errReply, closed}, {0, 0, errReply, closed}, {0, 0, errReply, closed},
			{time.Second, 0, errReply, closed}, {0, 0, errReply, closed}, {0, 0, errReply, closed},
		},
		"callers that have left": {
			{time.Second, 0, context.Canceled, closed}, {time.Second, 0, context.Canceled, closed}, {time.Second, 0, context.Canceled, closed},
			{time.Second, 0, redis.ErrPoolTimeout, closed}, {time.Second, 0, context.Canceled, closed}, {time.Second, 0, context.Canceled, closed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &(&servers{opt: &Options{Logger: slog.New(slog.DiscardHandler)}}).at("a").Breaker
				for i, m := range script {
					time.Sleep(m.after)
					_ = b.run(func() error { time.Sleep(m.took); return m.err })
					if got := stateOf(b); got != m.want {
						t.Errorf("instant %d: %s, want %s", i+1, got, m.want)
					}
				}
			})
		})
	}
}

// Of many calls at once, one tries an open breaker, and the others are refused. A reply to
// any call closes it, also to one that was sent before it opened.
func TestOneTrialAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &(&servers{opt: &Options{Logger: slog.New(slog.DiscardHandler)}}).at("a").Breaker
		before := make(chan error)
		go func() { _ = b.run(func() error { return <-before }) }()
		synctest.Wait()
		for range 5 {
			_ = b.run(func() error { time.Sleep(100 * ms); return errTimeout })
		}
		time.Sleep(breakerPause)
		trial := make(chan error)
		go func() { _ = b.run(func() error { return <-trial }) }()
		synctest.Wait()
		for range 3 {
			if err := b.run(func() error { t.Error("sent"); return nil }); !errors.Is(err, ErrOpen) || errors.Is(err, errTimeout) || !strings.Contains(err.Error(), "(a, since 2000-01-01T00:00:00Z: "+errTimeout.Error()+")") {
				t.Errorf("beside a trial: %v", err)
			}
		}
		trial <- errTimeout
		synctest.Wait()
		if got := stateOf(b); got != open {
			t.Errorf("after a trial in vain: %s", got)
		}
		before <- nil
		synctest.Wait()
		if got := stateOf(b); got != closed {
			t.Errorf("after a late reply: %s", got)
		}
	})
}

// A server that appears and disappears all the time causes few log lines: opening takes a
// silence. The last line is true.
func TestBreakerLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		b := &Breaker{log: slog.New(slog.NewTextHandler(&lines, nil)), server: "a"}
		const calls = 2000
		for i := range calls {
			answer := error(nil)
			if i%100 < 90 || i > calls-100 { // an answer from time to time, at last none
				answer = errTimeout
			}
			_ = b.run(func() error { return answer })
			time.Sleep(10 * ms)
		}
		seconds := calls / 100
		if got := strings.Count(lines.String(), "\n"); got < seconds/2 || got > 3*seconds {
			t.Errorf("%d lines in %d seconds", got, seconds)
		}
		if all := strings.Split(strings.TrimSpace(lines.String()), "\n"); !strings.Contains(all[len(all)-1], "does not answer") {
			t.Errorf("the last line is %s", all[len(all)-1])
		}
	})
}

// Calls get their turn in the order of arrival. They wait for a limited time,
// and only a limited number of them wait.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []QueueEvent
		var order []int
		opt := &Options{PoolSize: 1, IOTimeout: 100 * ms, Queue: func(e QueueEvent) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}}
		q := &(&servers{opt: opt}).at("a").queue
		if err := q.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			go func() {
				if err := q.enter(t.Context()); err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(60 * ms)
				q.leave()
			}()
			synctest.Wait()
		}
		late := make(chan error)
		go func() { late <- q.enter(t.Context()) }() // its turn is at 120 ms
		synctest.Wait()
		q.leave()
		if err := <-late; !errors.Is(err, errQueueLate) {
			t.Errorf("%v, want errQueueLate", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if fmt.Sprint(order) != "[0 1]" || q.waiting.Load() != 0 {
			t.Errorf("order %v, %d wait", order, q.waiting.Load())
		}
		if want := []QueueEvent{QueueWaits, QueueWaits, QueueWaits, QueueLeft, QueueLeft, QueueLate}; !slices.Equal(events, want) {
			t.Errorf("events %v, want %v", events, want)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := 0
		opt := &Options{PoolSize: 1, IOTimeout: time.Hour, Queue: func(e QueueEvent) {
			if e == QueueFull {
				full++
			}
		}}
		all := &servers{opt: opt}
		q := &all.at("a").queue
		if err := q.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range queuePerConnection {
			go func() {
				if q.enter(t.Context()) == nil {
					q.leave()
				}
			}()
		}
		synctest.Wait()
		if err := q.enter(t.Context()); !errors.Is(err, errQueueFull) || full != 1 {
			t.Errorf("%v, %d events; want errQueueFull and its event", err, full)
		}
		if err := all.at("b").enter(t.Context()); err != nil {
			t.Errorf("another server: %v", err)
		}
		q.leave()
		synctest.Wait()
		if err := q.enter(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
