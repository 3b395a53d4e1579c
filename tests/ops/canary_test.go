package ops

import (
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestCanary sends secrets and card data through every path, then looks for
// them in everything that the gateway writes or shows.
func TestCanary(t *testing.T) { harness.EachTerminal(t, testCanary) }

func testCanary(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Auth: "max_body 10KiB", Limits: harness.WithLimits,
		Global: "limit issue_card 2/1d\nlock_after 3", AnswerTimeout: "200ms"})
	c := make(harness.Canaries)
	keys := c.Keys(g)
	var bodies []string
	send := func(r *harness.Request) {
		c.Add("signature", r.Value("X-Signature"))
		c.Add("nonce", r.Value("X-Nonce"))
		c.Add("body hash", r.Value("X-Body-Hash"))
		answer, err := g.Try(r)
		if err == nil && answer.Status >= 400 {
			bodies = append(bodies, answer.Body)
		}
		c.Search(t, "an error body", strings.Join(bodies, "\n"))
	}
	requests := c.Requests(keys)
	for _, with := range c.Replies() {
		u.Replies(with)
		for _, r := range requests() {
			send(r)
		}
	}
	u.Close()
	for _, r := range requests() {
		send(r)
	}
	g.SendRaw(t, "GET /api/v1/orders?q=CANARYquery HTTP/1.1\r\nHost: x\r\nX-Signature: CANARYheader\x00\r\n\r\n")
	c.SearchGateway(t, g)
	g.Reload(g.Site)
	g.Stop()
	c.SearchGateway(t, g)
	// The logs contain what they should. Otherwise the test proves nothing.
	g.Logged("access.log", keys[0].ID, `"operation":"issue_card"`, `"outcome":"accepted"`, `"tenant":"acme"`, `"request_id":"`)
	if terminal == harness.ReverseProxy {
		g.Logged("default.log", `"level":"debug"`, "upstream roundtrip")
		return
	}
	g.Logged("default.log", `"logger":"card_gateway.issuers"`, `"kind":"behind"`)
	g.Logged("default.log", `"logger":"card_gateway.issuers"`, `"kind":"malformed"`)
}
