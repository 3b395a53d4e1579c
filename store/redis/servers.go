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
// reads the servers' state about once a second and shares the result with the
// other gateways. It knows nothing about claims and records.
type servers struct {
	*caller
	names   names
	log     *slog.Logger
	timeout time.Duration // of one check
	connect func(addr string) *redis.Client
	network *network
	now     func() time.Time

	view    atomic.Pointer[view]         // the current state
	masters atomic.Pointer[[]serverInfo] // as of the last check

	shared   singleflight.Group // the check that requests wait for
	checking sync.Mutex         // held during a check
	memory   memory             // guarded by checking
	mark     *mark
	accepts  acceptances
	waiting  atomic.Bool   // a promoted server is not used yet
	unfenced atomic.Uint64 // what requests have seen emptied since the last check began, as in the view
	lost     atomic.Bool   // the store was emptied since New: a missing key may have been lost

	life context.Context // ends with end
	end  context.CancelFunc
}

func newServers(c *caller, opt *Options) *servers {
	s := &servers{caller: c, names: names{prefix: opt.Prefix}, log: opt.Logger, timeout: opt.ChangeTimeout, connect: opt.node, network: opt.network, now: time.Now, mark: newMark(opt)}
	s.life, s.end = context.WithCancel(context.Background())
	s.view.Store(&view{problem: errNotChecked})
	s.masters.Store(new([]serverInfo))
	return s
}

// A mode is what a check may do to a store that has no epoch.
type mode int

const (
	// onlyObserve makes the epoch of a store that this gateway has never seen in
	// use. A store that was in use before was emptied: an operator must act.
	onlyObserve mode = iota
	// mayCreate also makes a new epoch for an emptied store, because an operator
	// writes keys.
	mayCreate
)

// ready returns nil if the servers were fit at the last check, which is at most
// about a second old, and the breaker is not open.
func (s *servers) ready() error {
	if err := s.view.Load().problem; err != nil {
		return err
	}
	if s.cluster == nil && s.breakers.at(theServer).State() == gobreaker.StateOpen {
		return unavailable("redis", gobreaker.ErrOpenState)
	}
	return nil
}

// accepted notes that a request of the key was accepted, at a moment of the server's
// clock in microseconds.
func (s *servers) accepted(id string, now int64) {
	s.mark.accepted(now)
	at := 0
	if s.cluster != nil {
		at = slotRange(id)
	}
	s.accepts.note(at, now)
}

// recall reads the mark of the process before into the memory of this one.
func (s *servers) recall() error {
	found := s.mark.read()
	for identity, text := range found.Servers {
		served, err := parseSlots(text)
		if err != nil {
			return fmt.Errorf("%s: %w", s.mark.path, err)
		}
		s.memory.remember([]serverInfo{{identity: identity, slots: served}})
	}
	for i := range s.accepts {
		s.accepts.note(i, found.Accepted)
	}
	return nil
}
