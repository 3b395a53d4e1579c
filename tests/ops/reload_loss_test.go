package ops

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
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
	var answered, broken, refused, sentAway atomic.Int64
	wires := make([]*harness.Wire, 16)
	load := harness.StartLoad(len(wires), func(client int, _ int64) {
		var err error
		if wires[client] == nil {
			if wires[client], err = g.Dial(""); err != nil {
				refused.Add(1)
				return
			}
		}
		answer, err := wires[client].Exchange(key.Request(http.MethodPost, "/api/v1/orders", `{"a":1}`))
		switch {
		case err != nil:
			broken.Add(1)
		case answer.Closes:
			answered.Add(1)
			sentAway.Add(1)
		default:
			answered.Add(1)
			return
		}
		_ = wires[client].Close()
		wires[client] = nil
	})
	defer load.Stop()
	reloads := 0
	for ; load.Sent() < least; reloads++ {
		s := g.Site
		s.Global = fmt.Sprintf("lock_after %d", 50+reloads%40)
		g.Reload(s)
	}
	load.Stop()
	if got := int64(len(u.Took())); got != answered.Load() {
		t.Errorf("the issuer received %d requests, %d were answered", got, answered.Load())
	}
	t.Logf("%d reloads, %d requests: %d connections were not accepted, %d ended without an answer, %d were closed by one",
		reloads, load.Sent(), refused.Load(), broken.Load(), sentAway.Load())
}

// TestNewConnectionsGoToTheNewConfiguration opens a connection for each request
// while configurations are loaded. After it is replaced, an old configuration
// may answer only the request that each client had already begun.
func TestNewConnectionsGoToTheNewConfiguration(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can be told which socket of an address takes new connections")
	}
	g := harness.StartGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	key := g.NewKey(nil)
	const clients, reloads = 8, 5
	var sentAway atomic.Int64
	load := harness.StartLoad(clients, func(int, int64) {
		if answer, err := g.Try(key.Get()); err == nil && answer.Closes {
			sentAway.Add(1)
		}
	})
	defer load.Stop()
	for i := range reloads {
		s := g.Site
		s.Global = fmt.Sprintf("lock_after %d", 50+i)
		g.Reload(s)
	}
	load.Stop()
	if got := sentAway.Load(); got > clients*reloads {
		t.Errorf("%d answers of %d clients at %d reloads came from an old configuration", got, clients, reloads)
	}
}
