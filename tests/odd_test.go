package tests

import (
	"net"
	"net/http"
	"testing"
)

// TestHalfClosed ends the sending side in the middle of a body and goes on
// reading: what was not forwarded must not look like a success.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	for _, r := range []*request{g.newKey(nil).post(), g.newKey(nil).post().forge()} {
		w := g.connect(t)
		w.write(t, r.head()+r.body[:4])
		if err := w.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := w.receive(r.method)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, got, http.StatusBadRequest, "BAD_REQUEST")
	}
	g.logged("access.log", `"outcome":"malformed_request"`, `"status":400`)
	u.none(t)
}

// TestUpstreamSwitchesProtocols lets the issuer switch to a protocol that
// nobody asked for: the client must not take that for a success.
func TestUpstreamSwitchesProtocols(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	u.replies(reply{raw: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello"})
	refused(t, g.send(t, g.newKey(nil).get()), http.StatusBadGateway, "UPSTREAM_ERROR")
}

// TestNothingBehind leaves out the proxy: nobody has issued the card.
func TestNothingBehind(t *testing.T) {
	t.Parallel()
	g := startGateway(t, site{routes: "card_auth"})
	refused(t, g.send(t, g.newKey(nil).post()), http.StatusBadGateway, "UPSTREAM_ERROR")
}

// TestClientHangsUp closes the connection while the issuer thinks.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	done := make(chan struct{})
	defer close(done)
	u.replies(reply{wait: done})
	w := g.connect(t)
	w.write(t, g.newKey(nil).get().head())
	eventually(t, "the request reached the upstream", func() bool { return len(u.took()) > 0 })
	_ = w.Close()
	g.logged("access.log", "/api/v1/cards/c1", `"outcome":"client_gone"`, `"status":499`)
}
