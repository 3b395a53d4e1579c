package masters

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// A slow check of the servers delays no request for longer than settling may
// take.
func TestSlowCheckHoldsNoSettle(t *testing.T) {
	w := watcher(t, rpc.Options{URL: "redis://127.0.0.1:1"})
	w.checking.Lock() // a check is under way
	defer w.checking.Unlock()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := w.CheckAgain(ctx, w.View()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// A request that sees the empty store is answered while a check goes on.
func TestEmptiedWaitsForNoCheck(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false)
	w := begun(t, watcher(t, rpc.Options{URL: p.URL()}))
	w.checking.Lock()
	p.Do(t, "flushall")
	answered := make(chan error)
	go func() { answered <- w.InUse(ctx, "a") }()
	select {
	case err := <-answered:
		if !errors.Is(err, ErrEmptied) || !errors.Is(w.View().Forbids("a"), ErrEmptied) {
			t.Errorf("%v, and the view %+v", err, w.View())
		}
		w.checking.Unlock()
	case <-time.After(redistest.Busy * time.Second):
		w.checking.Unlock()
		t.Errorf("it waited for the check: %v", <-answered)
	}
}
