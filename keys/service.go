// Package keys makes, changes and finds API keys.
//
// The rest of the gateway uses [Service]. It seals the secrets of the keys with
// the master keys (package keyring), makes their ids (package keyid), checks their
// fields (package fields), keeps opened keys in memory, and reports every
// change for the audit log. A store.Backend stores the keys. Package caddymodule
// writes the audit log and numbers its lines. Begin with [Service.Lookup] for the way
// of a request, and with [Service.Create] for that of a change.
package keys

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// Errors of [Service], beside those of [store.Backend].
var (
	// ErrLookupBudget means that an unknown id was not looked up, because there
	// were too many of them. It may exist or not, so the request is refused with
	// 503.
	ErrLookupBudget = errors.New("too many look-ups of key ids that are not known")
	// ErrRevision means that a key no longer has the revision that the caller
	// wanted to change.
	ErrRevision = errors.New("the key has another revision than the one to be changed")
	// ErrNotAsApproved means that a key to be sealed has changed since it was
	// shown to whoever approves it.
	ErrNotAsApproved = errors.New("the key is not as it was when it was shown for approval")
	// ErrSecretInUse means that an imported secret belongs to another key.
	ErrSecretInUse = errors.New("this secret is in use under another key id")
)

// Options adjust [Service]. The zero value is usable.
type Options struct {
	// Clock returns the time. Default: time.Now.
	Clock func() time.Time
	// After returns a channel that receives once the duration has passed.
	// Default: time.After.
	After func(time.Duration) <-chan time.Time
	// CacheSize bounds the number of keys whose opened record is kept in
	// memory. Default: 100,000.
	CacheSize int
	// CheckLimits and CheckScopes, when set, check the limits and scopes of a key
	// against the configuration, such as names of operations. Operators see their
	// errors.
	CheckLimits func(map[string]json.RawMessage) error
	CheckScopes func([]string) error
	// LookupRate (per second) and LookupBurst limit the look-ups of unknown ids
	// (see [Service.FollowChanges]), over all clients. There is no limit for a backend
	// that answers from memory (see [store.LocalBackend]). Default: 1000 and 2000.
	LookupRate  float64
	LookupBurst int
	// ReplayFloorAhead is added to the moment of a [Service.Copy]: requests stamped
	// up to that sum are refused. Default: 0.
	ReplayFloorAhead time.Duration
	// SealRequired refuses records without a seal also in a store of version 0.1. A
	// store that was made since refuses them anyway.
	SealRequired bool
	// Versions remembers the document versions of the store's records. Services that
	// use a store one after the other share it. Default: an empty one.
	Versions *VersionMemory
	// OnChange, when set, is called for every change and attempted change.
	OnChange func(Change)
	// OnForged, when set, is called each time that a forged record is read.
	OnForged func(*ForgedError)
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	o.CacheSize, o.LookupRate, o.LookupBurst = cmp.Or(o.CacheSize, 100_000), cmp.Or(o.LookupRate, 1000), cmp.Or(o.LookupBurst, 2000)
	if o.Versions == nil {
		o.Versions = NewVersionMemory()
	}
	if o.OnChange == nil {
		o.OnChange = func(Change) {}
	}
	if o.OnForged == nil {
		o.OnForged = func(*ForgedError) {}
	}
	return o
}

// Service makes, changes and finds API keys. It opens their secrets with the
// master keys and keeps opened keys in memory. All methods may be called at
// once from many goroutines.
type Service struct {
	backend store.Backend
	ring    *keyring.Ring
	opt     Options
	local   bool

	ids     atomic.Pointer[storeKey]
	foreign *foreignIDs
	counts  counts
	cache   *keyCache
	flights singleflight.Group
	lookups *rate.Limiter

	// stopped is done after Stop; stopMu prevents new tasks after that.
	stopped context.Context
	stop    context.CancelFunc
	stopMu  sync.Mutex
	tasks   sync.WaitGroup
}

// New returns the keys of a backend. It does no I/O; see [Service.Start].
func New(backend store.Backend, ring *keyring.Ring, opt Options) *Service {
	k := &Service{backend: backend, ring: ring, opt: opt.withDefaults()}
	local, ok := backend.(store.LocalBackend)
	k.local = ok && local.Local()
	k.foreign = &foreignIDs{seed: maphash.MakeSeed(), hashes: make(map[uint64]struct{})}
	k.counts.last.Store(new(count))
	k.cache = newKeyCache(k.opt.CacheSize)
	k.lookups = rate.NewLimiter(rate.Limit(k.opt.LookupRate), k.opt.LookupBurst)
	k.stopped, k.stop = context.WithCancel(context.Background())
	return k
}

// Start loads the id key, or makes it if the store is new. In the background it seals
// again, under the first master key, all secrets and records that are sealed under
// another one. If
// errors.Is(err, keyring.ErrMasterKey) or errors.Is(err, keyring.ErrDamaged), the gateway must
// not start. Any other error means that the backend could not answer; then call
// Start again.
func (k *Service) Start(ctx context.Context) error {
	_, err := k.idKey(ctx)
	return err
}

// Stop ends the background work of Start and waits for its end. The other methods
// still work.
func (k *Service) Stop() {
	k.stopMu.Lock()
	k.stop()
	k.stopMu.Unlock()
	k.tasks.Wait()
}

// background runs a task that ends with Stop, unless Stop was called already.
func (k *Service) background(task func(context.Context)) {
	k.stopMu.Lock()
	defer k.stopMu.Unlock()
	if k.stopped.Err() == nil {
		k.tasks.Go(func() { task(k.stopped) })
	}
}
