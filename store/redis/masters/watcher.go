// Package masters knows which Redis servers hold the state, and since when: nonces
// from before may be lost, and requests from before are refused.
//
// A server that restarts, is replaced, emptied or restored may lack nonces. The
// package notices that, agrees with the other gateways on a replay floor, and shows
// what is known as a [View]. adopt.lua makes what they agree on: the epoch, the floor
// and the fences. Begin with [Watcher] in watcher.go. The files:
//
//   - slots: the slots of a cluster, fences, and names of Redis keys
//   - beat: an older copy of the content
//   - info: what a server reports, which servers are refused, and what operators see
//   - view: what is known of the servers
//   - watcher: when that is found out, in the background and by requests
//   - agree: how: which servers are new, emptied or handed over, and what all gateways
//     agree on
package masters

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// Options are what a [Watcher] is told about the store.
type Options struct {
	// Prefix is the start of every Redis key.
	Prefix string
	// Index is a Redis key that only a store that was in use has.
	Index string
	// Timeout is how long one check may take.
	Timeout time.Duration
	// AcceptReplicas is whether to start although it cannot be read whether two masters
	// may accept at the same time.
	AcceptReplicas bool
	// Rights are the commands that the gateway's user must be allowed to run.
	Rights Rights
	// Now reads the clock of this gateway.
	Now func() time.Time
}

// A Watcher knows which servers hold the state, up to which moment nonces may
// have been lost on them (the replay floor), and whether they may be used. It
// reads the servers' state about once a second and shares the result with the
// other gateways. It knows nothing about claims and records. It is made by [New].
type Watcher struct {
	client *rpc.Client
	opt    Options
	names  names
	epochs []string // names of the copies of the epoch
	log    *slog.Logger

	view    atomic.Pointer[View]         // the current state
	masters atomic.Pointer[[]serverInfo] // as of the last check

	shared       singleflight.Group // the check that requests wait for
	checking     sync.Mutex         // held during a check
	observations observations       // guarded by checking
	swept        time.Time          // the last sweep of all beats; guarded by checking
	halfMade     time.Time          // when a store without an epoch was first seen; guarded by checking
	proposed     string             // the epoch of a store that this gateway makes
	waiting      atomic.Bool        // a promoted server is not used yet
	lost         atomic.Bool        // the store was emptied since New

	beats     []Beat
	raised    rpc.Latest   // the latest floor of an older content
	lastOlder atomic.Int64 // Unix second of the last line about one

	life context.Context // ends with the gateway
}

// New returns a watcher that works until life ends. It does no I/O.
func New(life context.Context, client *rpc.Client, opt Options) *Watcher {
	w := &Watcher{client: client, opt: opt, names: names{prefix: opt.Prefix}, epochs: names{prefix: opt.Prefix}.epochs(), log: client.Options.Logger, proposed: rand.Text(), life: life}
	w.beats = []Beat{{Key: opt.Prefix + "beat"}}
	if client.Cluster != nil {
		w.beats = slotBeats(w.names)
	}
	w.observations = newObservations()
	w.view.Store(&View{problem: errNotChecked})
	w.masters.Store(new([]serverInfo))
	return w
}

var (
	errNotChecked = fmt.Errorf("%w: redis was not reached yet", store.ErrUnavailable)
	// ErrBeingMade is the error while a new store is put into use.
	ErrBeingMade = fmt.Errorf("%w: redis is new, and is put into use when all its masters have answered", store.ErrUnavailable)
	// ErrEmptied is the error of a store that was in use and is no longer there.
	ErrEmptied = fmt.Errorf("%w: redis was emptied; create or import the keys again", store.ErrUnavailable)
)

// Begin checks the servers. An error means that a server was reached and is unfit: it may evict, is a replica or
// too old, would lose data at a restart, or refuses the user. A server that is out of
// reach is not an error.
func (w *Watcher) Begin(ctx context.Context) error {
	if err := w.check(ctx, mayBegin); err != nil {
		var unfit *rpc.UnfitError
		if errors.As(err, &unfit) {
			return err
		}
		w.log.Warn("redis is out of reach; requests are refused until it answers", "error", err)
		return nil
	}
	return w.refuseLosing()
}

// View returns what the last check has found, and what requests have seen since.
func (w *Watcher) View() *View { return w.view.Load() }

// Lost reports whether the store was emptied since New: a missing key may have been
// lost.
func (w *Watcher) Lost() bool { return w.lost.Load() }

// A mode is what a check may do to a store that has no epoch.
type mode int

const (
	// mayBegin makes the epoch of a store that this gateway has never seen in
	// use. A store that was in use before was emptied: an operator must act.
	mayBegin mode = iota
	// mayReplace also makes a new epoch for an emptied store, because an operator
	// writes keys.
	mayReplace
)

// Ready returns nil if the servers were fit at the last check, which is at most
// about a second old, and the breaker is not open.
func (w *Watcher) Ready() error {
	if err := w.view.Load().problem; err != nil {
		return err
	}
	if breaker := w.client.Breaker(rpc.TheServer); w.client.Cluster == nil && breaker.Open() {
		return rpc.Unavailable("redis", breaker.Refused())
	}
	return nil
}

// The store is ready exactly when a correct request would be accepted now. A
// cluster is ready while one master accepts. Trouble of the others, and trouble
// that stops only changes of keys, degrades the store.

// check reads the state of all masters, agrees with the other gateways on the
// replay floor, and stores the result as the view.
func (w *Watcher) check(ctx context.Context, m mode) error {
	w.checking.Lock()
	defer w.checking.Unlock()
	before := w.view.Load()
	next := &View{Known: before.Known, Floor: before.Floor, fences: before.fences, epoch: before.epoch, partial: w.client.Cluster != nil}
	err := w.examine(ctx, m, next)
	next.problem = err
	var unfit *rpc.UnfitError
	next.unfit = errors.As(err, &unfit)
	if before.epoch != "" && next.epoch != before.epoch {
		w.lost.Store(true)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return err // the store is closing; the view stays
	}
	if !next.equal(before) {
		w.logChange(before, next)
		w.view.Store(next)
	}
	return err
}

// examine fills the view with the state of the servers.
func (w *Watcher) examine(ctx context.Context, m mode, next *View) error {
	masters, err := w.readMasters(ctx)
	if len(masters) == 0 {
		return err
	}
	next.degrade(err)
	for i := range masters {
		if err := masters[i].unfit(); err != nil {
			return err
		}
	}
	w.masters.Store(&masters)
	var right []serverInfo
	var problems []error
	for _, m := range masters {
		if m.asked.degrades != "" {
			next.degrade(errors.New(m.asked.degrades))
		}
		if problem := m.skew(w.opt.Now()); problem != nil {
			problems = append(problems, problem)
		} else {
			right = append(right, m)
		}
	}
	usable, waiting := w.settled(ctx, right)
	if waiting {
		problems = append(problems, errHandOver)
	}
	if len(usable) > 0 {
		err := w.agree(ctx, m, usable, next)
		if err != nil && !next.servesWithout(err) {
			return err
		}
		next.degrade(err)
	}
	return next.conclude(usable, problems)
}

// agree shares the result with the other gateways and adopts their floors.
func (w *Watcher) agree(ctx context.Context, m mode, usable []serverInfo, next *View) error {
	err := w.adopt(ctx, m, w.adoption(usable), next)
	if err == nil {
		next.Known = w.observations.remember(usable)
	} else if !errors.Is(err, ErrEmptied) {
		return err
	}
	w.readBeats(ctx, next)
	return cmp.Or(err, w.checkEpochs(ctx, m, next))
}

// logChange logs the difference of two views. It does not log the problem of the
// first check, which Start returns.
func (w *Watcher) logChange(before, next *View) {
	if withoutNumbers(before.problem) != withoutNumbers(next.problem) && (next.problem == nil || !errors.Is(before.problem, errNotChecked)) {
		if next.problem != nil {
			w.log.Error("redis is not ready", "error", next.problem)
		} else {
			w.log.Info("redis is ready", "servers", next.Known)
		}
	}
	if !slices.Equal(before.degraded, next.degraded) && next.problem == nil {
		w.log.Warn("redis is degraded", "problems", next.degraded)
	}
	if before.epoch == "" {
		return
	}
	const lost = "nonces may have been lost; older requests are refused"
	if next.Floor > before.Floor {
		w.log.Warn(lost, "replay_floor", rpc.Moment(next.Floor))
	} else if next.Highest() > before.Highest() {
		w.log.Warn(lost, "replay_floor", rpc.Moment(next.Highest()), "slots", next.fences.String())
	}
}

// withoutNumbers returns the text of the problem without those parts that differ each
// time, such as the port of a connection or a moment.
func withoutNumbers(problem error) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, fmt.Sprint(problem))
}

// CheckAgain waits for a check that begins now or has begun, unless the view has
// changed since the caller read it. All callers share one check. It has its own
// deadline and continues if they leave.
func (w *Watcher) CheckAgain(ctx context.Context, seen *View) error {
	if w.view.Load() != seen {
		return nil
	}
	done := w.shared.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(w.life, w.opt.Timeout)
		defer cancel()
		return nil, w.check(ctx, mayBegin)
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return rpc.Unavailable("checking the servers", ctx.Err())
	}
}

// Watch checks the servers about once a second until life ends.
func (w *Watcher) Watch() {
	for {
		pause := watchPause
		if w.waiting.Load() {
			pause = waitingPause
		}
		if rpc.Sleep(w.life, pause) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(w.life, w.opt.Timeout)
		_ = w.check(ctx, mayBegin) // the view holds the problem
		cancel()
	}
}

const (
	watchPause   = time.Second
	waitingPause = 50 * time.Millisecond
)

// readMasters reads INFO of all masters. It leaves out those that are out of
// reach; the error is that of one of them, or that a server refuses the user.
func (w *Watcher) readMasters(ctx context.Context) ([]serverInfo, error) {
	var mu sync.Mutex
	var all []serverInfo
	err := w.client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		addr := w.client.AddressOf(node)
		served, owned := allSlots(), int64(0)
		if w.client.Cluster != nil {
			answer, err := node.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS needs a right that existing users lack
			if err != nil {
				return err
			}
			served, owned = ownSlots(addr, answer)
		}
		allowed := w.probe(ctx, node, served)
		i, err := readInfo(ctx, node, addr) // its time is later than the moment from which it takes writes
		if err != nil {
			return err
		}
		i.slots, i.owned, i.probed = served, owned, allowed
		if w.client.Cluster == nil && i.role != "master" {
			w.client.Distrust() // the address may lead to another server by now
		}
		mu.Lock()
		defer mu.Unlock()
		if i.role == "master" {
			w.inspect(ctx, node, &i)
		}
		if w.client.Cluster == nil || i.role == "master" { // otherwise it was just demoted
			all = append(all, i)
		}
		return nil
	})
	if w.client.Cluster == nil {
		return all, err
	}
	slices.SortFunc(all, func(a, b serverInfo) int { return strings.Compare(a.identity, b.identity) })
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: the cluster has no master", store.ErrUnavailable)
	}
	if unfit := rpc.Refusal("", err); unfit != nil {
		return nil, unfit
	}
	return all, rpc.Unavailable("checking the cluster", err)
}

// InUse returns nil if the part of the store that holds the name is in use. If this
// gateway has never seen the store in use, or if another gateway has put an emptied
// store into use again, it checks the servers first, so that the view has the current
// epoch and replay floor. A part that was in use and is no longer there was emptied.
func (w *Watcher) InUse(ctx context.Context, name string) error {
	epoch, err := w.epochAt(ctx, name)
	known := w.view.Load().epoch
	if err == nil && known != "" && epoch == "" {
		w.lost.Store(true)
	}
	if err == nil && (known == "" || epoch != "" && epoch != known) {
		if err = w.check(ctx, mayBegin); err == nil {
			epoch, err = w.epochAt(ctx, name)
		}
	}
	if err == nil && epoch == "" {
		return ErrEmptied
	}
	return err
}

// Initialise makes sure that the store is in use before keys are written. It puts a
// store that was emptied into use again.
func (w *Watcher) Initialise(ctx context.Context, name string) error {
	if err := w.InUse(ctx, name); !errors.Is(err, ErrEmptied) {
		return err
	}
	return w.check(ctx, mayReplace)
}
