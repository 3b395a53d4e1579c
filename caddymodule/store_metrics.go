package caddymodule

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis"
)

var storeSeconds = newHistogramVec(prometheus.HistogramOpts{
	Name:    "card_gateway_store_seconds",
	Help:    "Time that calls of the store took, by call and result.",
	Buckets: []float64{.000001, .0000025, .000005, .00001, .000025, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
}, []string{"call", "result"})

// storeQueued is the number of calls to Redis that wait for a connection, over
// all stores in use.
var (
	storeQueued atomic.Int64
	storeQueue  = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "card_gateway_store_queue",
		Help: "Calls to Redis that wait for a connection.",
	}, func() float64 { return float64(storeQueued.Load()) })
)

func countQueue(event redis.QueueEvent) {
	switch event {
	case redis.QueueWaits:
		storeQueued.Add(1)
	case redis.QueueLeft, redis.QueueLate:
		storeQueued.Add(-1)
	}
}

// Calls of the store and their results, closed sets.
var (
	storeCalls   = []string{"settle", "get", "put", "delete", "list", "meta"}
	storeResults = []string{"ok", "error"}
)

// storeCall observes one kind of call.
type storeCall struct{ ok, failed prometheus.Observer }

func newStoreCalls() map[string]*storeCall {
	calls := make(map[string]*storeCall, len(storeCalls))
	for _, call := range storeCalls {
		calls[call] = &storeCall{
			ok:     storeSeconds.WithLabelValues(call, storeResults[0]),
			failed: storeSeconds.WithLabelValues(call, storeResults[1]),
		}
	}
	return calls
}

// done observes the time since start. An answer such as "no such key" counts as
// ok, not as an error of the store.
func (c *storeCall) done(start time.Time, err error) {
	observer := c.ok
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) {
		observer = c.failed
	}
	observer.Observe(time.Since(start).Seconds())
}

// measuredBackend measures the calls of a backend.
type measuredBackend struct {
	store.Backend
	settle, get, put, del, list, meta *storeCall
}

// measured returns the backend, with its calls measured.
func measured(backend store.Backend) store.Backend {
	calls := newStoreCalls()
	return &measuredBackend{
		Backend: backend,
		settle:  calls["settle"], get: calls["get"], put: calls["put"],
		del: calls["delete"], list: calls["list"], meta: calls["meta"],
	}
}

// Local reports whether the backend answers from memory; see store.LocalBackend.
func (b *measuredBackend) Local() bool {
	local, ok := b.Backend.(store.LocalBackend)
	return ok && local.Local()
}

func (b *measuredBackend) Settle(ctx context.Context, c *store.Claim) (store.Verdict, error) {
	start := time.Now()
	verdict, err := b.Backend.Settle(ctx, c)
	b.settle.done(start, err)
	return verdict, err
}

func (b *measuredBackend) Get(ctx context.Context, id string) (*store.Record, error) {
	start := time.Now()
	record, err := b.Backend.Get(ctx, id)
	b.get.done(start, err)
	return record, err
}

func (b *measuredBackend) Put(ctx context.Context, r *store.Record, opt store.PutOptions) (store.Durability, error) {
	start := time.Now()
	durability, err := b.Backend.Put(ctx, r, opt)
	b.put.done(start, err)
	return durability, err
}

func (b *measuredBackend) Delete(ctx context.Context, id, revision string) (store.Durability, error) {
	start := time.Now()
	durability, err := b.Backend.Delete(ctx, id, revision)
	b.del.done(start, err)
	return durability, err
}

func (b *measuredBackend) List(ctx context.Context, cursor string, limit int) (store.Page, error) {
	start := time.Now()
	page, err := b.Backend.List(ctx, cursor, limit)
	b.list.done(start, err)
	return page, err
}

func (b *measuredBackend) Meta(ctx context.Context, name string) ([]byte, error) {
	start := time.Now()
	value, err := b.Backend.Meta(ctx, name)
	b.meta.done(start, err)
	return value, err
}

func (b *measuredBackend) PutMeta(ctx context.Context, name string, value []byte) ([]byte, error) {
	start := time.Now()
	stored, err := b.Backend.PutMeta(ctx, name, value)
	b.meta.done(start, err)
	return stored, err
}

func (b *measuredBackend) DeleteMeta(ctx context.Context, name string, value []byte) error {
	start := time.Now()
	err := b.Backend.DeleteMeta(ctx, name, value)
	b.meta.done(start, err)
	return err
}
