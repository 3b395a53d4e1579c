package tests

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
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

// TestAnswersThatSpeakForTheGateway lets the issuer send informational answers,
// trailers and statuses that are none: the client gets one answer, and what is
// the gateway's to say comes from the gateway.
func TestAnswersThatSpeakForTheGateway(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	trailers := "X-Request-Id: theirs\r\nX-RateLimit-Remaining: 9\r\nCache-Control: public\r\nX-Checksum: 1\r\n\r\n"
	for name, raw := range map[string]string{
		"announced trailers": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" +
			"Trailer: X-Request-Id, X-RateLimit-Remaining, Cache-Control, X-Checksum\r\n\r\n" + chunk("{}") + "0\r\n" + trailers,
		"trailers that were not announced": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{}") + "0\r\n" + trailers,
		"early hints":                      "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Request-Id: theirs\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"processing, many times":           strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 3) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
	} {
		u.replies(reply{raw: raw, hangUp: true})
		w := g.connect(t)
		w.write(t, key.get().head())
		text, err := readAnswer(w)
		if err != nil || !strings.HasPrefix(text, "HTTP/1.1 200 ") || !strings.Contains(text, "{}") {
			t.Errorf("%s: the client receives %q, %v", name, text, err)
		}
		for _, theirs := range []string{"theirs", "X-Ratelimit", "public", "X-Checksum", "Trailer", "103", "102", "Link"} {
			if strings.Contains(text, theirs) {
				t.Errorf("%s: the client receives %s in %q", name, theirs, text)
			}
		}
	}
	for _, status := range []string{"099", "000", "600", "999"} {
		u.replies(reply{raw: "HTTP/1.1 " + status + " Odd\r\nContent-Length: 9\r\nX-Theirs: 1\r\n\r\nissued it", hangUp: true})
		got := g.send(t, key.get())
		refused(t, got, http.StatusBadGateway, "UPSTREAM_ERROR")
		if got.header.Get("X-Theirs") != "" || got.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: the answer has %v", status, got.header)
		}
	}
}

// readAnswer returns all bytes of one answer with a length or chunks.
func readAnswer(w *wire) (string, error) {
	var text strings.Builder
	w.in = bufio.NewReader(io.TeeReader(w.Conn, &text))
	for {
		answer, err := http.ReadResponse(w.in, &http.Request{Method: http.MethodGet})
		if err != nil {
			return text.String(), err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode >= 200 {
			return text.String(), err
		}
	}
}
