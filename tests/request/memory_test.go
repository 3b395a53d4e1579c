package request

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestMemoryUnderAttack fills the whole memory for bodies, from many addresses
// and with many tenants, and goes on trying. The process grows by what the
// configuration allows and by little more.
func TestMemoryUnderAttack(t *testing.T) {
	t.Parallel()
	const budget, body, keys = 64 << 20, 1 << 20, 8
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: fmt.Sprint("body_budget ", budget)})
	text := strings.Repeat("x", body)
	before := g.ResidentMemory(t)
	var holders []harness.Credentials
	for i := range keys {
		holders = append(holders, g.NewKey(harness.Fields{"tenant": fmt.Sprint("tenant-", i)}))
	}
	for i := range 2 * budget / body {
		key := holders[i%keys]
		r := key.Request(http.MethodPost, "/api/v1/cards", text).From(fmt.Sprintf("127.0.0.%d", 2+i%keys/2))
		w, err := g.Dial(r.Source)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
		_, _ = w.Write([]byte(r.Head() + text[1:])) // one byte is held back; it may be refused at once
	}
	harness.Eventually(t, "the memory is full", func() bool {
		return g.Scrape(t)["card_gateway_body_bytes"] > budget*9/10
	})
	grown := g.ResidentMemory(t) - before
	t.Logf("the process has grown by %d MiB under a budget of %d MiB", grown>>20, budget>>20)
	if grown > budget*13/10 {
		t.Errorf("the process has grown by %d MiB under a budget of %d MiB", grown>>20, budget>>20)
	}
	if held := g.Scrape(t)["card_gateway_body_bytes"]; held > budget {
		t.Errorf("%v bytes are held", held)
	}
}
