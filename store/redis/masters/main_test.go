package masters

import (
	"cmp"
	"context"
	"crypto/rand"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

var ctx = context.Background()

func TestMain(m *testing.M) { redistest.Main(m) }

// testOrTrial is a test, or a trial of rapid.
type testOrTrial interface {
	rapid.TB
	Cleanup(func())
}

// watcher returns one with a prefix of its own, and with timeouts that are long enough
// for a busy machine.
func watcher(t testOrTrial, opt rpc.Options) *Watcher {
	t.Helper()
	return watcherOf(t, opt, rand.Text()+":")
}

func watcherOf(t testOrTrial, opt rpc.Options, prefix string) *Watcher {
	t.Helper()
	opt.IOTimeout = cmp.Or(opt.IOTimeout, 2*time.Second)
	client, err := rpc.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(ctx)
	t.Cleanup(func() { end(); _ = client.Close() })
	return New(life, client, Options{Prefix: prefix, Index: prefix + "index", Timeout: 8 * time.Second, Now: time.Now})
}

func begun(t testing.TB, w *Watcher) *Watcher {
	t.Helper()
	if err := w.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}
