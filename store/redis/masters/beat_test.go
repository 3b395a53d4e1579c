package masters

import (
	"fmt"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// Beats that nobody can have written in many slots are one trouble of the store, and hide
// no older content of another slot.
func TestManyDamagedBeats(t *testing.T) {
	t.Parallel()
	w := begun(t, watcher(t, rpc.Options{ClusterAddrs: redistest.Addrs(redistest.SharedCluster(t))}))
	far := time.Now().Add(2 * maxFloorAhead).UnixMicro()
	for i := range 20 {
		if err := w.client.Set(ctx, w.beats[i*800].Key, far, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	older := &w.beats[slots-1]
	older.Note(time.Now().UnixMicro(), time.Now())
	w.checking.Lock()
	w.swept = time.Time{}
	w.checking.Unlock()
	if err := w.check(ctx, mayBegin); err != nil {
		t.Fatal(err)
	}
	if got := w.View().degraded; len(got) != 1 {
		t.Errorf("degraded by %q, want one line", got)
	}
	text, err := w.client.Get(ctx, older.Key).Result()
	var at, floor int64
	if _, scanned := fmt.Sscan(text, &at, &floor); err != nil || scanned != nil || at < older.Seen() || floor == 0 {
		t.Errorf("the older content has the beat %q, %v", text, err)
	}
}

// A server may answer fewer values than were asked for: that is an error, and no panic.
func TestShortAnswerAboutTheStore(t *testing.T) {
	for _, answer := range []string{"*0\r\n", "*1\r\n$1\r\na\r\n", "*2\r\n$-1\r\n$-1\r\n", "*4\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n"} {
		w := watcher(t, rpc.Options{URL: "redis://127.0.0.1:1", Dialer: redistest.Answer(redistest.Hello, answer)})
		if same, err := w.unchanged(ctx, &View{epoch: "a"}); same || err == nil {
			t.Errorf("%q: %v, %v", answer, same, err)
		}
	}
}
