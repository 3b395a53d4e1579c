package caddymodule

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/audit"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/caddymodule/settings"
	"github.com/card-gateway/card-gateway/caddymodule/stores"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
)

// state is what outlives a request: the store, the keys in it, and the memory
// for bodies.
type state struct {
	backend      store.Backend // measured and audited
	keys         *keys.Service
	audit        *audit.Log
	pooled       *stores.Pooled
	bodies       *held.Memory // of requests
	answerMemory *held.Memory // of answers that are held for translation
	process      *node.State
	left         atomic.Bool // clients are moved away from this configuration; see drain

	starting sync.Mutex
	started  atomic.Bool
	revision atomic.Pointer[string] // see lockRevision

	accepted, failed atomic.Int64 // when a request was last settled, or could not be, in nanoseconds
}

// servingFor is how long an accepted request shows that the store settles requests.
const servingFor = 2 * time.Second

// serves reports whether requests are settled: the last one was, a moment ago.
func (s *state) serves() bool {
	last := s.accepted.Load()
	return last > s.failed.Load() && time.Since(time.Unix(0, last)) < servingFor
}

// newState returns the state in a store, for the rules of a configuration.
// Changes of keys are reported to the telemetry.
func newState(pooled *stores.Pooled, ring *keyring.Ring, r *settings.Settings, t *telemetry) *state {
	s := &state{backend: t.audit.Guard(meter.Store(pooled.Backend)), audit: t.audit, pooled: pooled, process: node.Process}
	s.bodies = held.NewMemory("body_budget", r.BodyBudget, r.BodyShare, r.BodyShareAddress)
	s.answerMemory = held.NewMemory("answer_budget", r.AnswerBudget, settings.AnswerShare, settings.AnswerShareAddress)
	s.renewLockRevision()
	s.keys = keys.New(s.backend, ring, keys.Options{
		CheckLimits: r.CheckLimits, CheckScopes: r.CheckScopes, OnChange: t.keyChanged, ReplayFloorAhead: r.FloorAhead,
		SealRequired: r.SealRequired, Versions: pooled.Versions, OnForged: t.recordForged,
	})
	return s
}

// ensureStarted starts the store unless it runs. Caddy starts its apps in any
// order, so a request may arrive before App.Start.
func (s *state) ensureStarted(ctx context.Context) error {
	if s.started.Load() {
		return nil
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.started.Load() {
		return nil
	}
	if err := s.backend.Start(ctx); err != nil {
		return err
	}
	if err := s.keys.Start(ctx); errors.Is(err, keyring.ErrMasterKey) || errors.Is(err, keyring.ErrDamaged) {
		return err
	}
	s.started.Store(true)
	return nil
}

// testMasterKey returns an error for a master key that does not open the store,
// if the store is local. For other stores ensureStarted does this, or ready when
// the store was out of reach before.
func (s *state) testMasterKey(ctx context.Context) error {
	if local, ok := s.backend.(store.LocalBackend); !ok || !local.Local() {
		return nil
	}
	return s.keys.TestMasterKey(ctx)
}

// lockRevision returns a random revision for a record that a request may lock.
// Locks are rare, so the same value is returned until it was used.
func (s *state) lockRevision() string { return *s.revision.Load() }

// renewLockRevision makes the next value of lockRevision.
func (s *state) renewLockRevision() {
	text := rand.Text()
	s.revision.Store(&text)
}

// ready returns nil when requests can be settled, and sets the gauge. A check that fails
// while requests are settled degrades the store. If the caller cancels the check, ready
// returns the context's error and leaves the gauge.
func (s *state) ready(ctx context.Context) error {
	err := s.ensureStarted(ctx)
	if err == nil {
		err = s.backend.Ready(ctx)
	}
	if err == nil {
		err = s.keys.Start(ctx) // reads what it could not read while the store was out of reach
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case err != nil && !s.serves():
		meter.StoreUp.Set(0)
		return err
	}
	meter.StoreUp.Set(1)
	return nil
}

// readyTimeout bounds how long a readiness check waits for the store.
const readyTimeout = time.Second

// sharePolicy gives the rules to a store that compares those of all its
// gateways.
func (s *state) sharePolicy(r *settings.Settings) {
	if sharer, ok := s.pooled.Backend.(interface{ SharePolicy(store.Policy) }); ok {
		sharer.SharePolicy(r.Policy())
	}
}
