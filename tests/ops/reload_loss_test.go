package ops

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestReloadsForwardNothingUnanswered loads configurations while clients send
// over connections that they keep. A request whose connection ends without an
// answer has not reached the issuer, so it may be sent again. How many there
// are depends on the machine and is logged; CARD_TEST_REQUESTS sets how many
// requests are sent at least.
func TestReloadsForwardNothingUnanswered(t *testing.T) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	least := int64(2000)
	if text := os.Getenv("CARD_TEST_REQUESTS"); text != "" {
		var err error
		if least, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	var sent, answered, broken, refused, sentAway atomic.Int64
	var clients sync.WaitGroup
	client := func() {
		var w *harness.Wire
		for sent.Add(1) <= least && !t.Failed() {
			var err error
			if w == nil {
				if w, err = g.Dial(""); err != nil {
					refused.Add(1)
					w = nil
					continue
				}
			}
			answer, err := w.Exchange(key.Request(http.MethodPost, "/api/v1/orders", `{"a":1}`))
			switch {
			case err != nil:
				broken.Add(1)
			case answer.Closes:
				answered.Add(1)
				sentAway.Add(1)
			default:
				answered.Add(1)
				continue
			}
			_ = w.Close()
			w = nil
		}
	}
	done := make(chan struct{})
	for range 16 {
		clients.Go(client)
	}
	go func() { clients.Wait(); close(done) }()
	reloads := 0
	for busy := true; busy; reloads++ {
		s := g.Site
		s.Global = fmt.Sprintf("lock_after %d", 50+reloads%40)
		g.Reload(s)
		select {
		case <-done:
			busy = false
		default:
		}
	}
	if got := int64(len(u.Took())); got != answered.Load() {
		t.Errorf("the issuer received %d requests, %d were answered", got, answered.Load())
	}
	t.Logf("%d reloads, %d requests: %d connections were not accepted, %d ended without an answer, %d were closed by one",
		reloads, least, refused.Load(), broken.Load(), sentAway.Load())
}
