package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/card-gateway/card-gateway/auth"
)

// Errors of [Keys], beside those of [Backend].
var (
	// ErrLookupBudget means that an id without our checksum was not looked up,
	// because too many such ids came in. Whether it exists is not known: the
	// request is refused with 503.
	ErrLookupBudget = errors.New("too many look-ups of key ids that were not made by this gateway")
	// ErrRevision means that a key no longer has the revision that the caller
	// wanted to change.
	ErrRevision = errors.New("the key has another revision than the one to be changed")
	// ErrSecretInUse means that an imported secret belongs to another key.
	ErrSecretInUse = errors.New("this secret is in use under another key id")
)

// InvalidError says that a field of a request to make or change a key is
// wrong, and what is expected of it.
type InvalidError struct {
	Field  string // as written in JSON; empty for the whole
	Reason string // a clause that follows the field's name
}

// Error returns the field's name and what is wrong with it.
func (e *InvalidError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// KeysOptions adjust [Keys]. The zero value is usable.
type KeysOptions struct {
	// Clock returns the time. Default: time.Now.
	Clock func() time.Time
	// CacheSize bounds the number of keys whose opened record is kept in
	// memory. Default: 100,000.
	CacheSize int
	// CheckLimits and CheckScopes, when set, judge what a key asks for against
	// the configuration, such as names of operations. Their errors are shown.
	CheckLimits func(map[string]json.RawMessage) error
	CheckScopes func([]string) error
	// LookupRate (per second) and LookupBurst bound the look-ups of ids that
	// lack our checksum, over all clients. A backend that answers from memory
	// (see [LocalBackend]) has no bound. Default: 1000 and 2000.
	LookupRate  float64
	LookupBurst int
	// ReplayFloorAhead is added to the moment of a [Keys.Copy]: requests stamped
	// up to that sum are refused. Default: 0.
	ReplayFloorAhead time.Duration
	// OnChange, when set, is told of every change and attempted change.
	OnChange func(Change)
}

func (o KeysOptions) withDefaults() KeysOptions {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.CacheSize <= 0 {
		o.CacheSize = 100_000
	}
	if o.LookupRate <= 0 {
		o.LookupRate = 1000
	}
	if o.LookupBurst <= 0 {
		o.LookupBurst = 2000
	}
	if o.OnChange == nil {
		o.OnChange = func(Change) {}
	}
	return o
}

// LocalBackend is an optional ability of a [Backend]: Local reports whether
// Get answers from memory, so that look-ups of invented ids need no bound.
type LocalBackend interface{ Local() bool }

// Keys makes, changes and finds API keys. It opens their secrets with the
// master keys and keeps opened keys in memory. All methods may be called at
// once from many goroutines.
type Keys struct {
	backend Backend
	ring    *Keyring
	opt     KeysOptions
	local   bool

	ids     atomic.Pointer[auth.IDKey]
	cache   *keyCache
	flights singleflight.Group
	lookups *rate.Limiter

	// stopped is done after Stop; stopMu keeps new tasks from coming after it.
	stopped context.Context
	stop    context.CancelFunc
	stopMu  sync.Mutex
	tasks   sync.WaitGroup
}

// NewKeys returns the keys of a backend. It does no I/O; see [Keys.Start].
func NewKeys(backend Backend, ring *Keyring, opt KeysOptions) *Keys {
	k := &Keys{backend: backend, ring: ring, opt: opt.withDefaults()}
	if l, ok := backend.(LocalBackend); ok {
		k.local = l.Local()
	}
	k.cache = newKeyCache(k.opt.CacheSize)
	k.lookups = rate.NewLimiter(rate.Limit(k.opt.LookupRate), k.opt.LookupBurst)
	k.stopped, k.stop = context.WithCancel(context.Background())
	return k
}

// Start loads the key that checks ids, or makes it if the store is new, and
// begins to seal again, in the background, what is not sealed under the first
// master key. An error for which errors.Is(err, ErrMasterKey) or
// errors.Is(err, ErrDamaged) holds means that the gateway must not start. Any
// other error means that the backend could not answer; everything is then
// loaded when it first does.
func (k *Keys) Start(ctx context.Context) error {
	if _, err := k.idKey(ctx); err != nil {
		return err
	}
	return nil
}

// Stop ends what Start began in the background and waits for it. Looking keys
// up and changing them goes on working.
func (k *Keys) Stop() {
	k.stopMu.Lock()
	k.stop()
	k.stopMu.Unlock()
	k.tasks.Wait()
}

// Lookup returns the key of the id, from memory if it is there: what it
// returns may then be older than the last change, which Settle notices by the
// revision. Errors: [ErrNotFound]; [ErrLookupBudget]; [ErrDamaged] and
// [ErrMasterKey] when the record cannot be used; else the backend could not
// answer. All but the first are no verdict on the key.
func (k *Keys) Lookup(ctx context.Context, id string) (*auth.Key, error) {
	if key := k.cache.get(id); key != nil {
		return key, nil
	}
	return k.miss(ctx, id)
}

func (k *Keys) miss(ctx context.Context, id string) (*auth.Key, error) {
	if !validID(id) {
		return nil, ErrNotFound
	}
	ids, err := k.idKey(ctx)
	if err != nil {
		return nil, err
	}
	if k.local {
		return k.Fresh(ctx, id)
	}
	if !ids.Check(id) && !k.lookups.AllowN(k.opt.Clock(), 1) {
		return nil, ErrLookupBudget
	}
	result, err := k.once(ctx, "key "+id, func(ctx context.Context) (any, error) { return k.Fresh(ctx, id) })
	if err != nil {
		return nil, err
	}
	return result.(*auth.Key), nil
}

// flightTimeout bounds a read that several requests wait for.
const flightTimeout = 5 * time.Second

// once runs read once for all who ask for the same name at the same time. The
// read goes on when the first of them leaves. An absent value may have come
// into being since a shared read began, so it is read again.
func (k *Keys) once(ctx context.Context, name string, read func(context.Context) (any, error)) (any, error) {
	done := k.flights.DoChan(name, func() (any, error) {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), flightTimeout)
		defer cancel()
		return read(detached)
	})
	select {
	case r := <-done:
		if r.Shared && errors.Is(r.Err, ErrNotFound) {
			return read(ctx)
		}
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Fresh returns the key of the id as the backend has it at this moment and
// keeps it for [Keys.Lookup], or forgets it when it is gone. Errors as there.
func (k *Keys) Fresh(ctx context.Context, id string) (*auth.Key, error) {
	if !validID(id) {
		return nil, ErrNotFound
	}
	r, err := k.backend.Get(ctx, id)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			k.cache.drop(id)
		}
		return nil, err
	}
	key, err := k.open(r)
	if err != nil {
		k.cache.drop(id)
		return nil, err
	}
	k.cache.put(key)
	return key, nil
}

// Invalidate forgets what Lookup keeps of the id.
func (k *Keys) Invalidate(id string) { k.cache.drop(id) }
