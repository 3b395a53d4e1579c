package tests

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// raw returns a request as it would be sent, for changing bytes in it.
func (r *request) raw() string { return r.head() + r.body }

// TestAmbiguousTargets signs targets that two parsers could read differently.
// They are refused by the gateway, by the HTTP server or by the site, and
// never reach the upstream; no answer is a redirect.
func TestAmbiguousTargets(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for _, target := range []string{
		"http://gw.example/api/v1/orders", "http://other.example/api/v1/orders", "//api/v1/orders", "*", "/",
		"/api/v1", "/api/v1/", "/api/v1//orders", "/api/v1/a/../orders", "/api/v1/./orders", "/api/v1/orders/..", "/api/v1/..",
		"/api/v1/public/%2e%2e/admin", "/api/v1/public/..%2fadmin", "/api/v1/public/%2e%2e%2fadmin", "/api/v1/....//admin",
		"/api/v1/..;/admin", "/api/v1/..%3b/admin", "/public/%2e%2e/api/v1/orders", "/public/../api/v1/orders", "/x/..%2fapi/v1/orders",
		"/api/v1/a%00", "/api/v1/a%0a", "/api/v1/a%5cb", "/api/v1/a\\b", "/api/v1/a{b}", "/api/v1/a|b", "/api/v1/a\"b", "/api/v1/<a>",
		"/api/v1/a^b", "/api/v1/a`b", "/api/v1/caf\xc3\xa9", "/api/v1/orders?q=\xe9", "/api/v1/%zz", "/api/v1/a%2", "/api/v1/orders?q=%",
		"/api/v1/orders#x", "/api/v1/orders?a=1#x", "/api/v1/%252e%252e/admin", "/api/v1/a%252fb",
		"/api/v1/" + strings.Repeat("a", 8200),
	} {
		for _, r := range []*request{key.request(http.MethodGet, target, ""), {method: http.MethodGet, target: target}} {
			answer := g.send(t, r)
			switch {
			case target == "/api/v1/" && r.headers != nil:
				// A path of its own, operation `other`; the upstream decides.
				accepted(t, answer)
				u.one(t)
			case target == "/api/v1/":
				unauthorized(t, answer, missingHeaders)
			case answer.status != http.StatusBadRequest && answer.status != http.StatusNotFound:
				t.Errorf("%.60q: answer is %s, want 400 or 404", target, answer)
			case answer.status == http.StatusNotFound && strings.HasPrefix(target, "/api/v1/") && !strings.Contains(target, ".."):
				t.Errorf("%.60q: answer is %s, want 400", target, answer)
			}
			if answer.header.Get("Content-Type") == "application/json" && answer.status == http.StatusBadRequest {
				refused(t, answer, http.StatusBadRequest, "BAD_REQUEST")
			}
		}
		u.none(t)
		if t.Failed() {
			t.Fatalf("target %.60q", target)
		}
	}
	g.wantFailures(t, key, 0)
}

// TestMethods sends methods in other spellings and other methods.
func TestMethods(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for _, method := range []string{"get", "Post", "patch", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "QUERY"} {
		answer := g.send(t, key.request(method, "/api/v1/orders/1", ""))
		refused(t, answer, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
		if answer.header.Get("Allow") == "" {
			t.Errorf("%s: no Allow in %v", method, answer.header)
		}
		lower := key.request(strings.ToUpper(method), "/api/v1/orders/1", "")
		lower.method = method // signed in upper case, sent as above
		refused(t, g.send(t, lower), http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	}
	u.none(t)

	head := key.request(http.MethodHead, "/api/v1/cards/c1", "")
	answer := g.send(t, head)
	if answer.status != http.StatusOK || answer.body != "" {
		t.Errorf("HEAD is answered %s", answer)
	}
	wantHeaders(t, u.one(t), map[string]string{"X-Gateway-Operation": "get_card"})
	other := key.request(http.MethodHead, "/api/v1/cards/c1", "")
	other.method = http.MethodGet
	unauthorized(t, g.send(t, other), wrongSignature)
	u.none(t)
}

// TestSmuggling sends what two parsers would cut at different places. What the
// gateway accepts, the upstream must see as exactly one request.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	second := "GET /api/v1/smuggled HTTP/1.1\r\nHost: gw.example\r\n\r\n"
	for name, c := range map[string]struct{ headers, framed, signed string }{
		"both lengths, chunked wins":    {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", chunk("abc") + "0\r\n\r\n", "abc"},
		"both lengths, length wins":     {"Transfer-Encoding: chunked\r\nContent-Length: " + strconv.Itoa(5+len(second)) + "\r\n", "0\r\n\r\n" + second, ""},
		"two lengths":                   {"Content-Length: 3\r\nContent-Length: 4\r\n", "abcd", "abc"},
		"a list of lengths":             {"Content-Length: 3, 3\r\n", "abc", "abc"},
		"a signed length":               {"Content-Length: +3\r\n", "abc", "abc"},
		"an unknown encoding":           {"Transfer-Encoding: xchunked\r\n", chunk("abc") + "0\r\n\r\n", "abc"},
		"chunked twice":                 {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunk("abc") + "0\r\n\r\n", "abc"},
		"a space before the colon":      {"Transfer-Encoding : chunked\r\nContent-Length: 3\r\n", "abc", "abc"},
		"a folded header":               {"X-Fold: a\r\n b\r\nContent-Length: 3\r\n", "abc", "abc"},
		"a chunk size that overflows":   {"Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\nabc\r\n0\r\n\r\n", "abc"},
		"a chunk that is longer":        {"Transfer-Encoding: chunked\r\n", "2\r\nabc\r\n0\r\n\r\n", "abc"},
		"a bare line feed in a chunk":   {"Transfer-Encoding: chunked\r\n", "3\nabc\n0\n\n", "abc"},
		"a bare carriage return inside": {"X-A: b\rTransfer-Encoding: chunked\r\nContent-Length: 3\r\n", "abc", "abc"},
		"NUL in a header":               {"X-A: b\x00c\r\nContent-Length: 3\r\n", "abc", "abc"},
		"no host":                       {"Content-Length: 3\r\nHost:\r\nHost: b\r\n", "abc", "abc"},
	} {
		r := key.request(http.MethodPost, "/api/v1/orders", c.signed)
		text := strings.Join(append([]string{"POST /api/v1/orders HTTP/1.1", "Host: gw.example"}, r.headers...), "\r\n")
		answer := g.sendRaw(t, text+"\r\n"+c.headers+"\r\n"+c.framed)
		reached := u.took()
		switch {
		case answer.status == http.StatusOK:
			if len(reached) != 1 || reached[0].framed != c.signed || reached[0].value("Content-Length") != contentLength(c.signed) {
				t.Errorf("%s: the upstream received %q", name, lines(reached))
			} else {
				cleanOf(t, reached[0])
			}
		case answer.status/100 == 4, answer.status == http.StatusNotImplemented:
			if len(reached) > 0 {
				t.Errorf("%s: refused with %s, but the upstream received %q", name, answer, lines(reached))
			}
		default:
			t.Errorf("%s: answer is %s", name, answer)
		}
	}
}

func contentLength(body string) string {
	if body == "" {
		return "0"
	}
	return strconv.Itoa(len(body))
}

// TestPipelinedRequests sends two requests in one packet: each is judged by
// itself.
func TestPipelinedRequests(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	w := g.connect(t)
	w.write(t, key.post().raw()+key.get().forge().raw()+key.get().raw())
	for i, message := range []string{"", wrongSignature, ""} {
		answer, err := w.receive(http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		unauthorized(t, answer, message)
		if t.Failed() {
			t.Fatalf("request %d of the packet", i+1)
		}
	}
	if got := fmt.Sprint(lines(u.took())); got != "[POST /api/v1/cards HTTP/1.1 GET /api/v1/cards/c1 HTTP/1.1]" {
		t.Errorf("the upstream received %s", got)
	}
}

// TestExpect goes through what a client may ask before it sends a body.
func TestExpect(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, auth: "max_body 4MiB"})
	key := g.newKey(nil)
	r := key.request(http.MethodPost, "/api/v1/cards", strings.Repeat("x", 2<<20)).add("Expect", "100-continue")
	w := g.connect(t)
	w.write(t, r.head())
	if line, err := w.in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("the gateway says %q (%v), want 100", line, err)
	}
	if _, err := w.in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	w.write(t, r.body)
	answer, err := w.receive(r.method)
	if err != nil {
		t.Fatal(err)
	}
	accepted(t, answer)
	got := u.one(t)
	if got.body != r.body {
		t.Errorf("the upstream received %d bytes, want %d", len(got.body), len(r.body))
	}
	cleanOf(t, got)

	for message, r := range map[string]*request{
		missingHeaders: r.drop("X-Signature"),
		unknownKey:     credentials{"nobody", "x"}.post().add("Expect", "100-continue"),
	} {
		w := g.connect(t)
		w.write(t, r.head())
		answer, err := w.receive(r.method)
		if err != nil {
			t.Fatal(err)
		}
		unauthorized(t, answer, message)
		if len(answer.informational) > 0 {
			t.Errorf("%s: the client was told to send its body", message)
		}
	}
	if answer := g.send(t, key.post().set("Expect", "200-ok")); answer.status != http.StatusExpectationFailed {
		t.Errorf("an unknown expectation is answered %s", answer)
	}
	u.none(t)
}

// TestTransferEncodingEndsTheConnection sends a second request behind one with
// Transfer-Encoding, on every handler that a client reaches: where a front
// believes a Content-Length that the gateway does not, the rest of the bytes
// are somebody else's request.
func TestTransferEncodingEndsTheConnection(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for name, r := range map[string]*request{
		"accepted":         key.request(http.MethodPost, "/api/v1/orders", "abc"),
		"refused by body":  key.request(http.MethodPost, "/api/v1/orders", "abcd"),
		"refused at once":  key.request(http.MethodPost, "/api/v1/orders", "abc").drop("X-Nonce"),
		"not found":        key.request(http.MethodPost, "/elsewhere", "abc"),
		"a health check":   key.request(http.MethodPost, "/livez", "abc"),
		"with both":        key.request(http.MethodPost, "/api/v1/orders", "abc").set("Content-Length", "3"),
		"ambiguous target": key.request(http.MethodPost, "/api/v1//orders", "abc"),
	} {
		r.set("Transfer-Encoding", "chunked")
		w := g.connect(t)
		w.write(t, r.head()+chunk("abc")+"0\r\n\r\n"+key.get().head())
		first, err := w.receive(r.method)
		if err != nil {
			t.Fatal(err)
		}
		second, err := w.receive(http.MethodGet)
		if err == nil {
			t.Errorf("%s: behind the answer %s there is %s", name, first, second)
		}
		for _, got := range u.took() {
			if strings.HasPrefix(got.line, "GET") {
				t.Errorf("%s: the request behind it reached the upstream", name)
			}
		}
	}
}
