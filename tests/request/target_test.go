package request

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestAmbiguousTargets signs targets that two parsers could read differently.
// They are refused by the gateway, by the HTTP server or by the site, and
// never reach the upstream; no answer is a redirect.
func TestAmbiguousTargets(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
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
		for _, r := range []*harness.Request{key.Request(http.MethodGet, target, ""), {Method: http.MethodGet, Target: target}} {
			answer := g.Send(t, r)
			switch {
			case target == "/api/v1/" && r.Headers != nil:
				// It is a different path, of the operation `other`; the
				// upstream decides.
				harness.WantAccepted(t, answer)
				u.One(t)
			case target == "/api/v1/":
				harness.WantUnauthorized(t, answer, harness.MissingHeaders)
			case answer.Status != http.StatusBadRequest && answer.Status != http.StatusNotFound:
				t.Errorf("%.60q: answer is %s, want 400 or 404", target, answer)
			case answer.Status == http.StatusNotFound && strings.HasPrefix(target, "/api/v1/") && !strings.Contains(target, ".."):
				t.Errorf("%.60q: answer is %s, want 400", target, answer)
			}
			if answer.Header.Get("Content-Type") == "application/json" && answer.Status == http.StatusBadRequest {
				harness.WantRefused(t, answer, http.StatusBadRequest, "BAD_REQUEST")
			}
		}
		u.None(t)
		if t.Failed() {
			t.Fatalf("target %.60q", target)
		}
	}
	g.WantFailures(t, key, 0)
}

// TestMethods sends methods in other spellings and other methods.
func TestMethods(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	for _, method := range []string{"get", "Post", "patch", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "QUERY"} {
		answer := g.Send(t, key.Request(method, "/api/v1/orders/1", ""))
		harness.WantRefused(t, answer, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
		if answer.Header.Get("Allow") == "" {
			t.Errorf("%s: no Allow in %v", method, answer.Header)
		}
		lower := key.Request(strings.ToUpper(method), "/api/v1/orders/1", "")
		lower.Method = method // signed in upper case, sent as above
		harness.WantRefused(t, g.Send(t, lower), http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	}
	u.None(t)

	head := key.Request(http.MethodHead, "/api/v1/cards/c1", "")
	answer := g.Send(t, head)
	if answer.Status != http.StatusOK || answer.Body != "" {
		t.Errorf("HEAD is answered %s", answer)
	}
	wantHeaders(t, u.One(t), map[string]string{"X-Gateway-Operation": "get_card"})
	other := key.Request(http.MethodHead, "/api/v1/cards/c1", "")
	other.Method = http.MethodGet
	harness.WantUnauthorized(t, g.Send(t, other), harness.WrongSignature)
	u.None(t)
}

// TestSmuggling sends bytes that two parsers would split at different places. If the
// gateway accepts them, the upstream must get exactly one request.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
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
		r := key.Request(http.MethodPost, "/api/v1/orders", c.signed)
		text := strings.Join(append([]string{"POST /api/v1/orders HTTP/1.1", "Host: gw.example"}, r.Headers...), "\r\n")
		answer := g.SendRaw(t, text+"\r\n"+c.headers+"\r\n"+c.framed)
		reached := u.Took()
		switch {
		case answer.Status == http.StatusOK:
			if len(reached) != 1 || reached[0].Framed != c.signed || reached[0].Value("Content-Length") != contentLength(c.signed) {
				t.Errorf("%s: the upstream received %q", name, harness.Lines(reached))
			} else {
				cleanOf(t, reached[0])
			}
		case answer.Status/100 == 4, answer.Status == http.StatusNotImplemented:
			if len(reached) > 0 {
				t.Errorf("%s: refused with %s, but the upstream received %q", name, answer, harness.Lines(reached))
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

// TestPipelinedRequests sends two requests in one packet: each is judged on its
// own.
func TestPipelinedRequests(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	w := g.Connect(t)
	w.WriteText(t, key.Post().Raw()+key.Get().Forge().Raw()+key.Get().Raw())
	for i, message := range []string{"", harness.WrongSignature, ""} {
		answer, err := w.Receive(http.MethodGet)
		if err != nil {
			t.Fatal(err)
		}
		harness.WantUnauthorized(t, answer, message)
		if t.Failed() {
			t.Fatalf("request %d of the packet", i+1)
		}
	}
	if got := fmt.Sprint(harness.Lines(u.Took())); got != "[POST /api/v1/cards HTTP/1.1 GET /api/v1/cards/c1 HTTP/1.1]" {
		t.Errorf("the upstream received %s", got)
	}
}

// TestExpect tries the Expect headers that a client may send before a body.
func TestExpect(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Auth: "max_body 4MiB"})
	key := g.NewKey(nil)
	r := key.Request(http.MethodPost, "/api/v1/cards", strings.Repeat("x", 2<<20)).Add("Expect", "100-continue")
	w := g.Connect(t)
	w.WriteText(t, r.Head())
	if line, err := w.In.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("the gateway says %q (%v), want 100", line, err)
	}
	if _, err := w.In.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	w.WriteText(t, r.Body)
	answer, err := w.Receive(r.Method)
	if err != nil {
		t.Fatal(err)
	}
	harness.WantAccepted(t, answer)
	got := u.One(t)
	if got.Body != r.Body {
		t.Errorf("the upstream received %d bytes, want %d", len(got.Body), len(r.Body))
	}
	cleanOf(t, got)

	for message, r := range map[string]*harness.Request{
		harness.MissingHeaders: r.Drop("X-Signature"),
		harness.UnknownKey:     harness.Credentials{ID: "nobody", Secret: "x"}.Post().Add("Expect", "100-continue"),
	} {
		w := g.Connect(t)
		w.WriteText(t, r.Head())
		answer, err := w.Receive(r.Method)
		if err != nil {
			t.Fatal(err)
		}
		harness.WantUnauthorized(t, answer, message)
		if len(answer.Informational) > 0 {
			t.Errorf("%s: the client was told to send its body", message)
		}
	}
	if answer := g.Send(t, key.Post().Set("Expect", "200-ok")); answer.Status != http.StatusExpectationFailed {
		t.Errorf("an unknown expectation is answered %s", answer)
	}
	u.None(t)
}

// TestTransferEncodingEndsTheConnection sends a second request after one with
// Transfer-Encoding, to every handler that a client reaches. If a proxy in front
// uses a Content-Length that the gateway ignores, the remaining bytes are another
// client's request.
func TestTransferEncodingEndsTheConnection(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	for name, r := range map[string]*harness.Request{
		"accepted":         key.Request(http.MethodPost, "/api/v1/orders", "abc"),
		"refused by body":  key.Request(http.MethodPost, "/api/v1/orders", "abcd"),
		"refused at once":  key.Request(http.MethodPost, "/api/v1/orders", "abc").Drop("X-Nonce"),
		"not found":        key.Request(http.MethodPost, "/elsewhere", "abc"),
		"a health check":   key.Request(http.MethodPost, "/livez", "abc"),
		"with both":        key.Request(http.MethodPost, "/api/v1/orders", "abc").Set("Content-Length", "3"),
		"ambiguous target": key.Request(http.MethodPost, "/api/v1//orders", "abc"),
	} {
		r.Set("Transfer-Encoding", "chunked")
		w := g.Connect(t)
		w.WriteText(t, r.Head()+chunk("abc")+"0\r\n\r\n"+key.Get().Head())
		first, err := w.Receive(r.Method)
		if err != nil {
			t.Fatal(err)
		}
		second, err := w.Receive(http.MethodGet)
		if err == nil {
			t.Errorf("%s: behind the answer %s there is %s", name, first, second)
		}
		for _, got := range u.Took() {
			if strings.HasPrefix(got.Line, "GET") {
				t.Errorf("%s: the request behind it reached the upstream", name)
			}
		}
	}
}

// TestOptionsOfTheServer asks what the server as a whole can do, which net/http answers by
// itself with an empty 200: it is answered by the gateway, and is in log and metrics.
func TestOptionsOfTheServer(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Extra: "handle {\ncard_refuse not_found\n}\n"})
	for range 2 {
		got := g.SendRaw(t, "OPTIONS * HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		harness.WantRefused(t, got, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
		if got.Header.Get("X-Request-Id") == "" || got.Header.Get("Allow") == "" {
			t.Errorf("the answer has the headers %v", got.Header)
		}
	}
	g.Logged("access.log", `"uri":"*"`, `"status":405`)
}
