package caddymodule

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/store"
)

// If a caller leaves during a call of the store, the store does not count as
// broken.
func TestGoneIsNoFailureOfTheStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	state := &state{backend: unreachable{}}
	state.started.Store(true)
	meter.StoreUp.Set(1)
	if err := state.ready(ctx); err == nil || testutil.ToFloat64(meter.StoreUp) != 1 {
		t.Errorf("a question that was taken back: %v, gauge %v", err, testutil.ToFloat64(meter.StoreUp))
	}
	if err := state.ready(t.Context()); err == nil || testutil.ToFloat64(meter.StoreUp) != 0 {
		t.Errorf("a store out of reach: %v, gauge %v", err, testutil.ToFloat64(meter.StoreUp))
	}
}

// unreachable is a store that cannot answer.
type unreachable struct{ store.Backend }

func (unreachable) Ready(context.Context) error { return store.ErrUnavailable }
