package redis

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/singleflight"
)

// servers knows which servers hold the state, up to which moment nonces may
// have been lost on them (the replay floor), and whether they may be used. It
// reads the servers' state about once a second and shares with the other
// gateways what it finds. It knows nothing of claims and records.
type servers struct {
	*caller
	names   names
	log     *slog.Logger
	timeout time.Duration // of one check
	connect func(addr string) *redis.Client
	now     func() time.Time

	view    atomic.Pointer[view]         // what is known
	masters atomic.Pointer[[]serverInfo] // as of the last check

	shared     singleflight.Group // the check that requests wait for
	checking   sync.Mutex         // held during a check
	memory     memory             // guarded by checking
	mark       *mark
	lastAccept atomic.Int64 // server's clock, microseconds
	waiting    atomic.Bool  // a promoted server is not used yet
	lost       atomic.Bool  // the store was emptied since New: a missing key may have been lost

	life context.Context // ends with end
	end  context.CancelFunc
}

func newServers(c *caller, opt *Options) *servers {
	s := &servers{caller: c, names: names{prefix: opt.Prefix}, log: opt.Logger, timeout: opt.ChangeTimeout, connect: opt.node, now: time.Now, mark: newMark(opt)}
	s.life, s.end = context.WithCancel(context.Background())
	s.view.Store(&view{problem: errNotChecked})
	s.masters.Store(new([]serverInfo))
	return s
}

// A mode says what a check may do to a store that has no epoch.
type mode int

const (
	// onlyObserve makes the epoch of a store that nobody has seen in use. If it
	// was in use, it was emptied: an operator must deal with that.
	onlyObserve mode = iota
	// mayCreate makes the epoch anew, because an operator writes keys.
	mayCreate
)

// ready returns nil when the servers were fit at the last check, which is at
// most about a second old, and calls come through.
func (s *servers) ready() error {
	if err := s.view.Load().problem; err != nil {
		return err
	}
	if s.cluster == nil && s.breakers.at(theServer).State() == gobreaker.StateOpen {
		return unavailable("redis", gobreaker.ErrOpenState)
	}
	return nil
}

// accepted notes the server's time of an acceptance, in microseconds.
func (s *servers) accepted(now int64) {
	s.mark.accepted(now)
	for {
		last := s.lastAccept.Load()
		if now <= last || s.lastAccept.CompareAndSwap(last, now) {
			return
		}
	}
}

// recall puts what the process before has left into the memory of this one.
func (s *servers) recall() error {
	found := s.mark.read()
	for identity, text := range found.Servers {
		served, err := parseSlots(text)
		if err != nil {
			return fmt.Errorf("%s: %w", s.mark.path, err)
		}
		s.memory.remember([]serverInfo{{identity: identity, slots: served}})
	}
	s.lastAccept.Store(found.Accepted)
	return nil
}
