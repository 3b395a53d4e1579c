package alerts

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A control is a gateway with an issuer, and a client, to which nothing happens. What
// its requests take too long, the machine has taken.
type control struct {
	slowest atomic.Int64 // of its requests, in ns
	failed  atomic.Int64 // requests
	client  sync.WaitGroup
	ended   chan struct{}
}

func startControl(t *testing.T) *control {
	t.Helper()
	issuer := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: issuer.Addr})
	c, key := &control{ended: make(chan struct{})}, g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	c.client.Go(func() {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			began := time.Now()
			if answer, err := g.Try(key.Get()); err != nil || answer.Status != http.StatusOK {
				c.failed.Add(1)
			}
			c.slowest.Store(max(c.slowest.Load(), int64(time.Since(began))))
			select {
			case <-c.ended:
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(c.end)
	return c
}

// disturbed returns whether requests failed, or took as long as only a fault may make
// them take.
func (c *control) disturbed() []string {
	const least = time.Second // of the bounds for how long something takes, see [scale.expression]
	slowest, failed := time.Duration(c.slowest.Load()), c.failed.Load()
	if slowest < least && failed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("of a gateway to which nothing happened %d requests failed, and one took %v", failed, slowest)}
}

// end stops the client.
func (c *control) end() {
	close(c.ended)
	c.client.Wait()
}
