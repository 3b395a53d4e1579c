package request

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestUpstreamAnswers checks which parts of the issuer's answer reach the client.
func TestUpstreamAnswers(t *testing.T) { harness.EachTerminal(t, testUpstreamAnswers) }

func testUpstreamAnswers(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	get := func() *harness.Request { return key.Get() }
	sensitive := func() *harness.Request { return key.Request(http.MethodGet, "/api/v1/card/c1/sensitive", "") }
	const withheld = "private, no-store"
	for _, c := range []struct {
		name    string
		r       func() *harness.Request
		reply   harness.Reply
		status  int
		body    string
		headers map[string]string
	}{
		{"plain", get, harness.Answer(200, `{"a":1}`, "Content-Type: application/json"), 200, `{"a":1}`,
			map[string]string{"Cache-Control": withheld, "Content-Type": "application/json"}},
		{"its own Cache-Control", get, harness.Answer(200, `{}`, "Cache-Control: max-age=60"), 200, `{}`,
			map[string]string{"Cache-Control": "max-age=60"}},
		{"sensitive details", sensitive, harness.Answer(200, `{"cvv":"1"}`), 200, `{"cvv":"1"}`, map[string]string{"Cache-Control": withheld}},
		{"sensitive details that may be cached", sensitive,
			harness.Answer(200, `{}`, "Cache-Control: public, max-age=60", "ETag: \"1\"", "Expires: Thu, 01 Dec 2033 16:00:00 GMT"), 200, `{}`,
			map[string]string{"Cache-Control": withheld, "Etag": "", "Expires": ""}},
		{"its own request id", get, harness.Answer(200, `{}`, "X-Request-Id: upstream"), 200, `{}`, nil},
		{"its own limits", get, harness.Answer(200, `{}`, "X-RateLimit-Limit: 9", "X-RateLimit-Remaining: 8", "X-RateLimit-Reset: 7", "RateLimit: x"), 200, `{}`,
			map[string]string{"X-Ratelimit-Limit": "", "X-Ratelimit-Remaining": "", "X-Ratelimit-Reset": "", "Ratelimit": ""}},
		{"an error", get, harness.Answer(422, `{"detail":"currency"}`, "Content-Type: application/problem+json", "X-Other: 1"), 422, `{"detail":"currency"}`,
			map[string]string{"Content-Type": "application/problem+json", "X-Other": "1"}},
		{"an error without a body", get, harness.Answer(404, ""), 404, "", nil},
		{"a server error", get, harness.Answer(500, "oops", "Content-Type: text/plain"), 500, "oops", nil},
		{"its own 401", get, harness.Answer(401, `{"x":1}`), 401, `{"x":1}`, map[string]string{"Www-Authenticate": ""}},
		{"its own 502", get, harness.Answer(502, `bad`), 502, `bad`, nil},
		{"no content", get, harness.Reply{Raw: "HTTP/1.1 204 No Content\r\n\r\n"}, 204, "", nil},
		{"chunked", get, harness.Reply{Raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"}, 200, "abc", nil},
	} {
		u.Replies(c.reply)
		r := c.r().Add("X-Request-Id", "client-1_A")
		got := g.Send(t, r)
		if got.Status != c.status || got.Body != c.body {
			t.Errorf("%s: answer is %s, want %d %s", c.name, got, c.status, c.body)
		}
		for name, value := range c.headers {
			if text := strings.Join(got.Header.Values(name), " | "); text != value {
				t.Errorf("%s: %s is %q, want %q", c.name, name, text, value)
			}
		}
		if id := got.Header.Values("X-Request-Id"); !slices.Equal(id, []string{"client-1_A"}) {
			t.Errorf("%s: X-Request-Id is %q", c.name, id)
		}
		wantHeaders(t, u.One(t), map[string]string{"X-Request-Id": "client-1_A"})
	}
}

// TestSetCookie checks that the lines of a header stay separate.
func TestSetCookie(t *testing.T) { harness.EachTerminal(t, testSetCookie) }

func testSetCookie(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	cookies := []string{"a=1; Path=/", "b=2", "c=3; Expires=Thu, 01 Dec 2033 16:00:00 GMT"}
	links := []string{"</a>; rel=next", "</b>; rel=prev"}
	var headers []string
	for _, cookie := range cookies {
		headers = append(headers, "Set-Cookie: "+cookie)
	}
	for _, link := range links {
		headers = append(headers, "Link: "+link)
	}
	u.Replies(harness.Answer(200, "{}", headers...))
	got := g.Send(t, g.NewKey(nil).Get())
	if !slices.Equal(got.Header.Values("Set-Cookie"), cookies) || !slices.Equal(got.Header.Values("Link"), links) {
		t.Errorf("headers are %v", got.Header)
	}
}

// TestRequestID checks which ids of a client are kept.
func TestRequestID(t *testing.T) { harness.EachTerminal(t, testRequestID) }

func testRequestID(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	seen := make(map[string]bool)
	for _, c := range []struct {
		id   string
		kept bool
	}{
		{"", false}, {"a", true}, {"A-z_09", true}, {strings.Repeat("x", 64), true}, {strings.Repeat("x", 65), false},
		{"a b", false}, {"a,b", false}, {"{env.HOME}", false}, {"é", false}, {"a;b", false},
	} {
		for _, r := range []*harness.Request{key.Get(), key.Get().Forge()} {
			got := g.Send(t, r.Set("X-Request-Id", c.id)).Header.Values("X-Request-Id")
			if len(got) != 1 || got[0] == "" || (got[0] == c.id) != c.kept || !c.kept && seen[got[0]] {
				t.Errorf("the id %q is answered with %q", c.id, got)
			}
			seen[got[0]] = true
			for _, r := range u.Took() {
				wantHeaders(t, r, map[string]string{"X-Request-Id": got[0]})
			}
		}
	}
	got := g.Send(t, key.Get().Add("X-Request-Id", "a").Add("X-Request-Id", "b")).Header.Values("X-Request-Id")
	if len(got) != 1 || got[0] == "a" || got[0] == "b" {
		t.Errorf("two ids are answered with %q", got)
	}
}

// TestUpstreamFailures checks the answers to an issuer that fails, without any
// handle_errors in the Caddyfile.
func TestUpstreamFailures(t *testing.T) { harness.EachTerminal(t, testUpstreamFailures) }

func testUpstreamFailures(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, AnswerTimeout: "3s"})
	key := g.NewKey(nil)
	done := make(chan struct{})
	defer close(done)
	for _, c := range []struct {
		name   string
		reply  harness.Reply
		status int
		code   string
	}{
		{"hangs", harness.Reply{Wait: done}, http.StatusGatewayTimeout, "UPSTREAM_TIMEOUT"},
		{"hangs up", harness.Reply{}, http.StatusBadGateway, "UPSTREAM_ERROR"},
		{"sends garbage", harness.Reply{Raw: "\x00\x01 garbage\r\n\r\n", HangUp: true}, http.StatusBadGateway, "UPSTREAM_ERROR"},
		{"sends half a head", harness.Reply{Raw: "HTTP/1.1 200 OK\r\nX-A", HangUp: true}, http.StatusBadGateway, "UPSTREAM_ERROR"},
		{"sends two lengths", harness.Reply{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na", HangUp: true}, http.StatusBadGateway, "UPSTREAM_ERROR"},
	} {
		u.Replies(c.reply)
		got := g.Send(t, key.Post())
		harness.WantRefused(t, got, c.status, c.code)
		if t.Failed() {
			t.Fatalf("an upstream that %s", c.name)
		}
		g.Logged("access.log", `"outcome":"`+strings.ToLower(c.code)+`"`)
	}
	u.Took()
	u.Close()
	harness.WantRefused(t, g.Send(t, key.Get()), http.StatusBadGateway, "UPSTREAM_ERROR")
	g.WantFailures(t, key, 0)
}

// TestUpstreamDies makes the answer end in the middle: the client must notice
// that it is not complete.
func TestUpstreamDies(t *testing.T) { harness.EachTerminal(t, testUpstreamDies) }

func testUpstreamDies(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	u.Replies(harness.Reply{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":", HangUp: true})
	if got, err := g.Try(g.NewKey(nil).Get()); err == nil {
		t.Errorf("half an answer came through as %s", got)
	}
}

// TestNoSecondDelivery makes the upstream close a connection after it has
// received a request on it. Every kind of request is sent only once.
func TestNoSecondDelivery(t *testing.T) { harness.EachTerminal(t, testNoSecondDelivery) }

func testNoSecondDelivery(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Auth: "pass_header X-Idempotency-Key"})
	key := g.NewKey(nil)
	for _, c := range []struct {
		method, body string
		headers      []string
	}{
		{"POST", `{"a":1}`, nil},
		{"POST", "", nil},
		{"POST", `{"a":1}`, []string{"Idempotency-Key: k1"}},
		{"POST", "", []string{"Idempotency-Key: k2"}},
		{"POST", "", []string{"X-Idempotency-Key: k3"}},
		{"PATCH", `{"a":1}`, []string{"idempotency-key: k4"}},
		{"PATCH", "", []string{"Idempotency-Key: k5"}},
		{"PUT", "", []string{"Idempotency-Key: k6"}},
		{"DELETE", "", []string{"Idempotency-Key: k7"}},
		{"GET", "", nil},
		{"HEAD", "", nil},
	} {
		u.Replies(harness.Answer(200, "{}"))
		harness.WantAccepted(t, g.Send(t, key.Get())) // leaves a connection behind
		reused := u.One(t).Conn
		u.Replies(harness.Reply{})
		r := key.Request(c.method, "/api/v1/cards/c1", c.body)
		r.Headers = append(r.Headers, c.headers...)
		got := g.Send(t, r)
		if got.Status != http.StatusBadGateway {
			t.Errorf("%s: answer is %s, want 502", c.method, got)
		}
		if reached := u.Took(); len(reached) != 1 {
			t.Errorf("%s with %q reached the upstream %d times", c.method, c.headers, len(reached))
		} else if reached[0].Conn != reused {
			t.Errorf("%s came over a new connection, which proves nothing", c.method)
		} else if len(c.headers) > 0 {
			name, value, _ := strings.Cut(c.headers[0], ": ")
			wantHeaders(t, reached[0], map[string]string{name: value})
		}
	}
}

// TestSeveralUpstreams has two issuers: one cannot be reached, the other closes the
// connection after each request. A request that was sent is not sent to another
// issuer. If it was not sent, card_forward sends it to the other.
func TestSeveralUpstreams(t *testing.T) { harness.EachTerminal(t, testSeveralUpstreams) }

func testSeveralUpstreams(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	s := harness.Site{Upstream: fmt.Sprint(u.Addr, " ", harness.FreeAddress(t)), Terminal: terminal, Proxy: "policy round_robin"}
	want := 4
	if terminal == harness.ReverseProxy {
		s.Proxy, want = "lb_policy round_robin", 2
	}
	g := harness.StartGateway(t, s)
	key := g.NewKey(nil)
	u.Replies(harness.Reply{})
	for range 4 {
		harness.WantRefused(t, g.Send(t, key.Post()), http.StatusBadGateway, "UPSTREAM_ERROR")
	}
	if got := len(u.Took()); got != want {
		t.Errorf("the upstream received %d requests of 4, want %d", got, want)
	}
}
