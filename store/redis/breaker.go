package redis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	// breakerFailures in a row are needed to open a breaker.
	breakerFailures = 5
	// breakerSilence must have passed without any reply, too. So a moment
	// without a CPU, here or at the server, does not open it.
	breakerSilence = 500 * time.Millisecond
	// breakerPause is how long an open breaker answers by itself.
	breakerPause = 300 * time.Millisecond
)

// A breaker is open while its server does not answer, so that an outage costs
// microseconds. A server that answers, with whatever, is not shut out: what is
// slow, or fails for one key, fails by itself.
type breaker struct {
	*gobreaker.CircuitBreaker[struct{}]
	silence silence
}

// run sends a command unless the breaker is open.
func (b *breaker) run(send func() error) error {
	begun := time.Now()
	_, err := b.Execute(func() (struct{}, error) {
		err := send()
		b.silence.note(begun, err)
		return struct{}{}, err
	})
	return err
}

// breakers holds a breaker per server, so that the fall of one master does not
// shut out the others.
type breakers struct {
	log *slog.Logger
	all sync.Map // of server address to *breaker
}

func (b *breakers) at(server string) *breaker {
	if found, ok := b.all.Load(server); ok {
		return found.(*breaker)
	}
	found, _ := b.all.LoadOrStore(server, b.newBreaker(server))
	return found.(*breaker)
}

func (b *breakers) newBreaker(server string) *breaker {
	n := &breaker{}
	news := &news{log: b.log, server: server}
	n.CircuitBreaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:    server,
		Timeout: breakerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= breakerFailures && n.silence.lasted() >= breakerSilence
		},
		IsSuccessful: answered,
		IsExcluded:   saysNothing,
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to != gobreaker.StateHalfOpen { // a trial is no news
				news.changed(to == gobreaker.StateOpen)
			}
		},
	})
	return n
}

// answered reports whether the server has replied, be it with an error.
func answered(err error) bool {
	var reply redis.Error
	return err == nil || errors.As(err, &reply)
}

// saysNothing reports whether the error says nothing of the server: the caller
// has left, or a burst of calls has waited for a connection in vain. If the
// server was why the others kept theirs, they have failed by themselves.
func saysNothing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrPoolTimeout)
}

// A silence is the time since the first call that has got no reply, as long as
// no call gets one.
type silence struct {
	mu           sync.Mutex
	since, heard time.Time
}

// note notes how a call that was begun then has ended.
func (s *silence) note(begun time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case answered(err):
		s.since, s.heard = time.Time{}, time.Now()
	case saysNothing(err):
	case s.since.IsZero():
		if s.since = begun; s.heard.After(begun) {
			s.since = s.heard
		}
	}
}

// lasted returns how long the silence has lasted; 0 when there is none.
func (s *silence) lasted() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return 0
	}
	return time.Since(s.since)
}

// news logs whether a server answers, at most one line per newsPause. A change
// that comes earlier is logged when the pause is over, if it still holds.
type news struct {
	log    *slog.Logger
	server string

	mu             sync.Mutex
	silent, logged bool // now, and in the last line
	waiting        bool // for the end of the pause
	last           time.Time
}

const newsPause = time.Second

func (n *news) changed(silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = silent
	if n.waiting {
		return
	}
	if rest := newsPause - time.Since(n.last); rest > 0 {
		n.waiting = true
		time.AfterFunc(rest, n.pauseOver)
		return
	}
	n.writeLocked()
}

func (n *news) pauseOver() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = false
	n.writeLocked()
}

func (n *news) writeLocked() {
	if n.silent == n.logged {
		return
	}
	n.logged, n.last = n.silent, time.Now()
	if n.silent {
		n.log.Warn("redis does not answer; its requests are refused until it does", "server", n.server)
	} else {
		n.log.Warn("redis answers again", "server", n.server)
	}
}
