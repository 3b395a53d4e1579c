package masters

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// copies returns the copies of the epoch by their ranges; "" means that a copy
// is missing.
func copies(t rapid.TB, w *Watcher) (all [slotRanges]string) {
	t.Helper()
	for i, name := range w.epochs {
		copied, _, err := w.client.Value(ctx, name, "get", "")
		if err != nil {
			t.Fatal(err)
		}
		all[i] = string(copied)
	}
	return all
}

// foundStore is the state that a starting gateway finds. The epoch is "own".
type foundStore struct {
	epoch, keys bool
	copies      [slotRanges]string
}

func drawStore(t *rapid.T) (f foundStore) {
	f.epoch, f.keys = rapid.Bool().Draw(t, "epoch"), rapid.IntRange(0, 3).Draw(t, "keys") == 0
	kinds := rapid.SampledFrom([][]string{{""}, {"own"}, {"", "own"}, {"", "other"}, {"other", "own"}}).Draw(t, "kinds")
	for i := range f.copies {
		f.copies[i] = rapid.SampledFrom(kinds).Draw(t, fmt.Sprint("copy ", i))
	}
	return f
}

func (f *foundStore) write(t rapid.TB, w *Watcher) {
	pipe := w.client.Pipeline()
	if f.epoch {
		pipe.HSet(ctx, w.names.shared(), "epoch", "own")
	}
	if f.keys {
		pipe.ZAdd(ctx, w.opt.Index, redis.Z{Member: "ck_test_some"})
	}
	for i, name := range w.epochs {
		if f.copies[i] != "" {
			pipe.Set(ctx, name, f.copies[i], 0)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
}

// A starting gateway may find any state of the epoch and its copies. It takes
// the store for a new one only if nothing shows that it was in use. Copies without an
// epoch may be those that another gateway makes now, so it waits a while.
func TestFoundOfTheEpoch(t *testing.T) {
	t.Parallel()
	nodes := redistest.SharedCluster(t)
	rapid.Check(t, func(t *rapid.T) {
		w := watcher(t, rpc.Options{ClusterAddrs: redistest.Addrs(nodes)})
		f := drawStore(t)
		f.write(t, w)
		present := 0
		for _, c := range f.copies {
			present += len(c[:min(len(c), 1)])
		}
		first := w.check(ctx, mayBegin)
		if waits := !f.epoch && !f.keys && present > 0; waits != errors.Is(first, ErrBeingMade) {
			t.Fatalf("%+v: at first %v", f, first)
		} else if waits {
			w.halfMade = w.halfMade.Add(-halfMadeWait)
			first = w.check(ctx, mayBegin)
		}
		isNew := !f.epoch && !f.keys && present == 0
		want := f.copies
		if isNew {
			for i := range want {
				want[i] = w.View().epoch
			}
		}
		if got := copies(t, w); got != want {
			t.Errorf("copies %q, want %q", got, want)
		}
		emptied := errors.Is(first, ErrEmptied) || strings.Contains(fmt.Sprint(w.View().degraded), ErrEmptied.Error())
		if emptied != (!isNew && present < slotRanges) || w.Lost() != emptied {
			t.Errorf("%+v: %v, degraded %q, lost %v", f, first, w.View().degraded, w.Lost())
		}
		if raised := w.View().Floor > 0; raised == isNew {
			t.Errorf("%+v: the floor is %d", f, w.View().Floor)
		}
		// The first key that an operator makes puts all of it into use.
		if err := w.check(ctx, mayReplace); err != nil || len(w.View().degraded) != 0 {
			t.Errorf("put into use: %v, %q", err, w.View().degraded)
		}
	})
}
