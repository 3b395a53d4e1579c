package request

import (
	"net"
	"net/http"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestHalfClosed ends the sending side in the middle of a body and goes on
// reading: what was not forwarded must not look like a success.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	for _, r := range []*harness.Request{g.NewKey(nil).Post(), g.NewKey(nil).Post().Forge()} {
		w := g.Connect(t)
		w.WriteText(t, r.Head()+r.Body[:4])
		if err := w.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := w.Receive(r.Method)
		if err != nil {
			t.Fatal(err)
		}
		harness.WantRefused(t, got, 499, "CLIENT_GONE")
	}
	g.Logged("access.log", `"outcome":"client_gone"`, `"status":499`)
	u.None(t)
}

// TestUpstreamSwitchesProtocols lets the issuer switch to a protocol that
// nobody asked for: the client must not take that for a success.
func TestUpstreamSwitchesProtocols(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	u.Replies(harness.Reply{Raw: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello"})
	harness.WantRefused(t, g.Send(t, g.NewKey(nil).Get()), http.StatusBadGateway, "UPSTREAM_ERROR")
}

// TestNothingBehind leaves out the proxy: nobody has issued the card.
func TestNothingBehind(t *testing.T) {
	t.Parallel()
	g := harness.StartGateway(t, harness.Site{Routes: "card_auth"})
	harness.WantRefused(t, g.Send(t, g.NewKey(nil).Post()), http.StatusBadGateway, "UPSTREAM_ERROR")
}

// TestClientHangsUp closes the connection while the issuer thinks.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	done := make(chan struct{})
	defer close(done)
	u.Replies(harness.Reply{Wait: done})
	w := g.Connect(t)
	w.WriteText(t, g.NewKey(nil).Get().Head())
	harness.Eventually(t, "the request reached the upstream", func() bool { return len(u.Took()) > 0 })
	_ = w.Close()
	g.Logged("access.log", "/api/v1/cards/c1", `"outcome":"client_gone"`, `"status":499`)
}
