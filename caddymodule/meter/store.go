package meter

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

var storeSeconds = histograms("card_gateway_store_seconds",
	"Time that calls of the store took, by call and result.",
	[]float64{.000001, .0000025, .000005, .00001, .000025, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}, "call", "result")

// storeQueued is the number of calls to Redis that wait for a connection, over
// all stores in use.
var (
	storeQueued atomic.Int64
	storeQueue  = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "card_gateway_store_queue",
		Help: "Calls to Redis that wait for a connection.",
	}, func() float64 { return float64(storeQueued.Load()) })
)

// CountQueue counts the calls that wait for a connection to Redis.
func CountQueue(event rpc.QueueEvent) {
	switch event {
	case rpc.QueueWaits:
		storeQueued.Add(1)
	case rpc.QueueLeft, rpc.QueueLate:
		storeQueued.Add(-1)
	}
}

// storeCall observes one kind of call.
type storeCall struct{ ok, failed lateHistogram }

// done observes the time since start. An answer such as "no such key" counts as
// ok, not as an error of the store.
func (c *storeCall) done(start time.Time, err *error) {
	observer := c.ok
	if *err != nil && !errors.Is(*err, store.ErrNotFound) && !errors.Is(*err, store.ErrConflict) && !errors.Is(*err, store.ErrExists) {
		observer = c.failed
	}
	observer().ObserveWithExemplar(time.Since(start).Seconds(), nil)
}

// measuredBackend measures the calls of a backend.
type measuredBackend struct {
	store.Backend
	settle, look, levels, get, put, delete, list, meta storeCall
}

// Store returns the backend, with its calls measured.
func Store(backend store.Backend) store.Backend {
	call := func(name string) storeCall {
		return storeCall{lateHistograms(storeSeconds, name, "ok"), lateHistograms(storeSeconds, name, "error")}
	}
	b := &measuredBackend{backend, call("settle"), call("look"), call("levels"), call("get"), call("put"), call("delete"), call("list"), call("meta")}
	for _, rated := range []lateHistogram{b.settle.ok, b.settle.failed, b.look.failed, b.get.failed, b.put.failed, b.delete.failed, b.meta.failed} {
		rated()
	}
	return b
}

// Local reports whether the backend answers from memory; see store.LocalBackend.
func (b *measuredBackend) Local() bool {
	local, ok := b.Backend.(store.LocalBackend)
	return ok && local.Local()
}

func (b *measuredBackend) Settle(ctx context.Context, c *store.Claim) (v store.Verdict, err error) {
	defer b.settle.done(time.Now(), &err)
	return b.Backend.Settle(ctx, c)
}

func (b *measuredBackend) Look(ctx context.Context, c *store.Claim) (v store.Verdict, err error) {
	defer b.look.done(time.Now(), &err)
	return b.Backend.Look(ctx, c)
}

func (b *measuredBackend) Levels(ctx context.Context, keyID string, charges []ratelimit.Charge, now time.Time) (s []ratelimit.State, err error) {
	defer b.levels.done(time.Now(), &err)
	return b.Backend.Levels(ctx, keyID, charges, now)
}

func (b *measuredBackend) Get(ctx context.Context, id string) (r *store.Record, err error) {
	defer b.get.done(time.Now(), &err)
	return b.Backend.Get(ctx, id)
}

func (b *measuredBackend) Put(ctx context.Context, r *store.Record, opt store.PutOptions) (d store.Durability, err error) {
	defer b.put.done(time.Now(), &err)
	return b.Backend.Put(ctx, r, opt)
}

func (b *measuredBackend) Delete(ctx context.Context, id, revision string) (d store.Durability, err error) {
	defer b.delete.done(time.Now(), &err)
	return b.Backend.Delete(ctx, id, revision)
}

func (b *measuredBackend) List(ctx context.Context, cursor string, limit int) (p store.Page, err error) {
	defer b.list.done(time.Now(), &err)
	return b.Backend.List(ctx, cursor, limit)
}

func (b *measuredBackend) Meta(ctx context.Context, name string) (value []byte, err error) {
	defer b.meta.done(time.Now(), &err)
	return b.Backend.Meta(ctx, name)
}

func (b *measuredBackend) PutMeta(ctx context.Context, name string, value []byte) (stored []byte, err error) {
	defer b.meta.done(time.Now(), &err)
	return b.Backend.PutMeta(ctx, name, value)
}

func (b *measuredBackend) DeleteMeta(ctx context.Context, name string, value []byte) (err error) {
	defer b.meta.done(time.Now(), &err)
	return b.Backend.DeleteMeta(ctx, name, value)
}

// A Settler is a store that settles one request within a span.
type Settler struct {
	store.Backend
	Name  string // of the store
	Spans *Spans
}

// Settle is part of store.Backend.
func (s *Settler) Settle(ctx context.Context, claim *store.Claim) (store.Verdict, error) {
	span := s.Spans.StartSettle(s.Name)
	defer span.End()
	verdict, err := s.Backend.Settle(ctx, claim)
	switch {
	case err != nil:
		span.Outcome(auth.StoreUnavailable)
	case verdict.Stale:
		span.Set("card_gateway.outcome", "stale")
	default:
		span.Outcome(verdict.Reason)
	}
	return verdict, err
}
