package request

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestHalfClosed closes the sending side in the middle of a body and still reads:
// the answer to a request that was not forwarded must not look like a success.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	for _, r := range []*harness.Request{g.NewKey(nil).Post(), g.NewKey(nil).Post().Forge()} {
		w := g.Connect(t)
		w.WriteText(t, r.Head()+r.Body[:4])
		if err := w.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := w.Receive(r.Method)
		if err != nil {
			t.Fatal(err)
		}
		harness.WantRefused(t, got, http.StatusBadRequest, "BAD_REQUEST")
	}
	g.Logged("access.log", `"outcome":"malformed_request"`, `"status":400`)
	u.None(t)
}

// TestHalfClosedAfterTheRequest closes the sending side behind a whole request, in each
// way that there is: it is served, as if the client had only waited.
func TestHalfClosedAfterTheRequest(t *testing.T) {
	harness.EachTerminal(t, testHalfClosedAfterTheRequest)
}

func testHalfClosedAfterTheRequest(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	servers := map[string]string{harness.CardForward: "protocols h1", harness.ReverseProxy: ""}[terminal] // Caddy wraps the connections of the first
	g, secured := startSecured(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Servers: servers})
	key := g.NewKey(nil)
	for name, half := range map[string]struct {
		wire  func() *harness.Wire
		close func(*harness.Wire) error
	}{
		"plain":                 {func() *harness.Wire { return g.Connect(t) }, (*harness.Wire).CloseWrite},
		"TLS, its alert":        {func() *harness.Wire { return secured(t) }, (*harness.Wire).CloseWrite},
		"TLS, the socket alone": {func() *harness.Wire { return secured(t) }, func(w *harness.Wire) error { return w.Socket().CloseWrite() }},
		"TLS, both": {func() *harness.Wire { return secured(t) }, func(w *harness.Wire) error {
			return errors.Join(w.CloseWrite(), w.Socket().CloseWrite())
		}},
	} {
		for _, r := range []*harness.Request{key.Post(), key.Post().Set("Connection", "close"), key.Get()} {
			served := make(chan struct{})
			u.Replies(harness.Reply{Raw: harness.Answer(200, "{}").Raw, Wait: served})
			w := half.wire()
			w.WriteText(t, harness.Sent(r).Head()+r.Body)
			if err := half.close(w); err != nil {
				t.Fatal(err)
			}
			harness.Eventually(t, name+": the request reached the upstream", func() bool { return len(u.Took()) > 0 })
			close(served)
			if got, err := w.Receive(r.Method); err != nil || got.Status != 200 {
				t.Errorf("%s: %s is answered %v, %v; want 200", name, r.Method, got, err)
			}
		}
	}
}

// startSecured starts a gateway with a second site over TLS, and returns it with what
// connects there for HTTP/1.1.
func startSecured(t *testing.T, site harness.Site) (*harness.Gateway, func(*testing.T) *harness.Wire) {
	t.Helper()
	g, address := harness.NewGateway(t, site), harness.FreeAddress(t)
	cert, key, _ := (*harness.Authority)(nil).Sign(t, "gw.example")
	g.WriteFile("cert.pem", string(cert))
	g.WriteFile("key.pem", string(key))
	g.Site.Sites = fmt.Sprintf("https://:%s {\nbind 127.0.0.1\ntls %s %s\nlog {\noutput file %s\nformat card\n}\ncard_auth\n%s}\n",
		portOf(address), g.Path("cert.pem"), g.Path("key.pem"), g.Path("access.log"), g.Site.ToIssuer())
	g.Start()
	return g, func(t *testing.T) *harness.Wire {
		t.Helper()
		conn := tls.Client(dialed(t, address), &tls.Config{ServerName: "gw.example", InsecureSkipVerify: true})
		return &harness.Wire{Conn: conn, In: bufio.NewReader(conn)}
	}
}

// TestUpstreamSwitchesProtocols makes the issuer switch protocols although no
// request asked for it. The client must not take that for a success.
func TestUpstreamSwitchesProtocols(t *testing.T) {
	harness.EachTerminal(t, testUpstreamSwitchesProtocols)
}

func testUpstreamSwitchesProtocols(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	u.Replies(harness.Reply{Raw: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello"})
	harness.WantRefused(t, g.Send(t, g.NewKey(nil).Get()), http.StatusBadGateway, "UPSTREAM_ERROR")
}

// TestNothingBehind has no handler that forwards: the answer must not look as if
// the card was issued.
func TestNothingBehind(t *testing.T) {
	t.Parallel()
	g := harness.StartGateway(t, harness.Site{Routes: "card_auth"})
	harness.WantRefused(t, g.Send(t, g.NewKey(nil).Post()), http.StatusBadGateway, "UPSTREAM_ERROR")
}

// TestClientHangsUp resets the connection while the issuer works, some time after the
// client has closed its side too.
func TestClientHangsUp(t *testing.T) { harness.EachTerminal(t, testClientHangsUp) }

func testClientHangsUp(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g, secured := startSecured(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	done := make(chan struct{})
	defer close(done)
	u.Replies(harness.Reply{Wait: done})
	for i, w := range []*harness.Wire{g.Connect(t), g.Connect(t), secured(t), secured(t)} {
		r := g.NewKey(nil).Get().Set("X-Request-Id", fmt.Sprint("gone-", i))
		w.WriteText(t, harness.Sent(r).Head())
		if i%2 > 0 {
			if err := w.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		harness.Eventually(t, "the request reached the upstream", func() bool { return len(u.Took()) > 0 })
		w.Reset()
		g.Logged("access.log", "/api/v1/cards/c1", fmt.Sprint("gone-", i), `"outcome":"client_gone"`, `"status":499`)
	}
}

// TestClientGoneForGood closes both directions. The gateway notices that only when it
// writes, so the request holds its place for as long as the issuer works, and no longer.
func TestClientGoneForGood(t *testing.T) { harness.EachTerminal(t, testClientGoneForGood) }

func testClientGoneForGood(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	done := make(chan struct{})
	u.Replies(harness.Reply{Raw: harness.Answer(200, "{}").Raw, Wait: done})
	w, r := g.Connect(t), g.NewKey(nil).Post()
	w.WriteText(t, r.Head()+r.Body)
	harness.Eventually(t, "the request reached the upstream", func() bool { return len(u.Took()) > 0 })
	_ = w.Close()
	close(done)
	g.Logged("access.log", "/api/v1/cards", `"outcome":"accepted"`)
}

// TestAnswersThatSpeakForTheGateway makes the issuer send informational answers,
// trailers and invalid statuses. The client gets one answer, and only the
// gateway sets the gateway's headers.
func TestAnswersThatSpeakForTheGateway(t *testing.T) {
	harness.EachTerminal(t, testAnswersThatSpeakForTheGateway)
}

func testAnswersThatSpeakForTheGateway(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	spelled := "X_Gateway_Forwarded: theirs\r\nX-Gateway-: theirs\r\nX_Request_Id: theirs\r\nx_ratelimit_limit: theirs\r\n" +
		"RateLimit-Limit: theirs\r\nRATELIMIT_RESET: theirs\r\nX-Response_Signature: theirs\r\n"
	trailers := spelled + "X-Request-Id: theirs\r\nX-RateLimit-Remaining: 9\r\nCache-Control: public\r\nX-Checksum: 1\r\n\r\n"
	for name, raw := range map[string]string{
		"announced trailers": "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n" +
			"Trailer: X-Request-Id, X_Request_Id, X-RateLimit-Remaining, Cache-Control, X-Checksum\r\n\r\n" + chunk("{}") + "0\r\n" + trailers,
		"trailers that were not announced":          "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("{}") + "0\r\n" + trailers,
		"the gateway's headers, in other spellings": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n" + spelled + "\r\n{}",
		"early hints":            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Request-Id: theirs\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
		"processing, many times": strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 3) + "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
	} {
		u.Replies(harness.Reply{Raw: raw, HangUp: true})
		w := g.Connect(t)
		w.WriteText(t, key.Get().Head())
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
		u.Replies(harness.Reply{Raw: "HTTP/1.1 " + status + " Odd\r\nConnection: close\r\nContent-Length: 9\r\nX-Theirs: 1\r\n\r\nissued it", HangUp: true})
		got := g.Send(t, key.Get())
		harness.WantRefused(t, got, http.StatusBadGateway, "UPSTREAM_ERROR")
		if got.Header.Get("X-Theirs") != "" || got.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: the answer has %v", status, got.Header)
		}
	}
}

// readAnswer returns all bytes of one answer with a length or chunks.
func readAnswer(w *harness.Wire) (string, error) {
	var text strings.Builder
	w.In = bufio.NewReader(io.TeeReader(w.Conn, &text))
	for {
		answer, err := http.ReadResponse(w.In, &http.Request{Method: http.MethodGet})
		if err != nil {
			return text.String(), err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode >= 200 {
			return text.String(), err
		}
	}
}
