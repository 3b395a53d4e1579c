package masters

import (
	"fmt"
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

func wantNoNote(t rapid.TB, w *Watcher) {
	t.Helper()
	if noted, err := w.client.HExists(ctx, w.names.shared(), "making").Result(); err != nil || noted {
		t.Errorf("that the copies are being made is still noted (%v, %v)", noted, err)
	}
}

// foundStore is the state that a starting gateway finds. The epoch is "own".
type foundStore struct {
	noted, keys bool
	copies      [slotRanges]string
}

func drawStore(t *rapid.T) (f foundStore) {
	f.noted, f.keys = rapid.Bool().Draw(t, "noted"), rapid.IntRange(0, 3).Draw(t, "keys") == 0
	kinds := rapid.SampledFrom([][]string{{""}, {"own"}, {"", "own"}, {"", "own"}, {"", "other"}, {"other", "own"}, {"", "own", "other"}}).Draw(t, "kinds")
	for i := range f.copies {
		f.copies[i] = rapid.SampledFrom(kinds).Draw(t, fmt.Sprint("copy ", i))
	}
	return f
}

func (f *foundStore) write(t rapid.TB, w *Watcher) {
	pipe := w.client.Pipeline()
	pipe.HSet(ctx, w.names.shared(), "epoch", "own")
	if f.noted {
		pipe.HSet(ctx, w.names.shared(), "making", "1")
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

// becomes returns the copies after a check, and the ranges that count as emptied.
func (f *foundStore) becomes() (copies [slotRanges]string, emptied uint64) {
	missing, other := 0, false
	for i, c := range f.copies {
		other = other || c == "other"
		if c == "" {
			missing++
			emptied |= 1 << i
		}
	}
	if !(f.noted && !f.keys && !other) && missing < slotRanges {
		return f.copies, emptied
	}
	for i := range copies {
		copies[i] = "own"
	}
	return copies, 0
}

// A starting gateway may find any state of the epoch and its copies. It takes
// the store for a new one only if nothing shows that it was in use.
func TestFoundOfTheEpoch(t *testing.T) {
	t.Parallel()
	nodes := redistest.SharedCluster(t)
	rapid.Check(t, func(t *rapid.T) {
		w := watcher(t, rpc.Options{ClusterAddrs: redistest.Addrs(nodes)})
		f := drawStore(t)
		f.write(t, w)
		if err := w.check(ctx, mayBegin); err != nil {
			t.Fatal(err)
		}
		want, emptied := f.becomes()
		if got := w.View(); got.emptied != emptied || got.making {
			t.Errorf("emptied ranges %x, being made %v; want %x", got.emptied, got.making, emptied)
		}
		if got := copies(t, w); got != want {
			t.Errorf("copies %q, want %q", got, want)
		}
		wantNoNote(t, w)
	})
}
