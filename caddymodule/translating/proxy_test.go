package translating

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/gzip"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/issuer"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/held"
)

func init() {
	caddy.RegisterModule(testApp{})
	caddy.RegisterModule(new(Translate))
	caddy.RegisterModule(new(issuer.Forward))
	caddy.RegisterModule(new(acceptedForTest))
}

// testApp is an app card_gateway that knows no key.
type testApp struct{}

func (testApp) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "card_gateway", New: func() caddy.Module { return testApp{} }}
}

func (testApp) Start() error                              { return nil }
func (testApp) Stop() error                               { return nil }
func (testApp) Join(string, any, *caddyhttp.Server) error { return nil }
func (testApp) Unjudged() request.Unjudged                { return request.Unjudged{} }

// acceptedForTest replaces card_auth: it accepts every request, with the operation
// and the key's variant from its headers. The handlers behind it are options of its
// own, because routes without a card_auth in front of them are refused.
type acceptedForTest struct {
	BehindRaw []json.RawMessage `json:"behind" caddy:"namespace=http.handlers inline_key=handler"`

	behind []caddyhttp.MiddlewareHandler
}

func (*acceptedForTest) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_test_accepted", New: func() caddy.Module { return new(acceptedForTest) }}
}

func (h *acceptedForTest) Provision(ctx caddy.Context) error {
	loaded, err := ctx.LoadModule(h, "BehindRaw")
	if err != nil {
		return err
	}
	for _, handler := range loaded.([]any) {
		h.behind = append(h.behind, handler.(caddyhttp.MiddlewareHandler))
	}
	return nil
}

func (h *acceptedForTest) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	info := &request.Info{
		Reporter: new(request.NewReporter(zap.NewNop(), nil)), RequestID: "req-1", Body: heldText(string(body)),
		Operation: &auth.Operation{Name: r.Header.Get("Operation")}, Key: &auth.Key{CustomerVariant: r.Header.Get("Variant")},
	}
	r = request.With(r, info)
	held.SetBody(r, body)
	for _, handler := range slices.Backward(h.behind) {
		last := next
		next = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return handler.ServeHTTP(w, r, last) })
	}
	return next.ServeHTTP(w, r)
}

// terminals are the handlers that may forward, without the issuer's address.
var terminals = map[string]string{
	"card_forward":  `{"handler":"card_forward","issuers":[%q]}`,
	"reverse_proxy": `{"handler":"reverse_proxy","upstreams":[{"dial":%q}]}`,
}

// translatingProxy serves card_translate and a terminal handler in front of the
// issuer, with `encode` around them, and returns a client for it.
func translatingProxy(t *testing.T, terminal string, serve http.HandlerFunc) *http.Client {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	socket := filepath.Join(dir, "caddy.sock")
	config := fmt.Sprintf(`{"admin":{"disabled":true,"config":{"persist":false}},"logging":{"logs":{"default":{"level":"PANIC"}}},
		"apps":{"card_gateway":{},
		"http":{"servers":{"test":{"listen":["unix/%s"],"automatic_https":{"disable":true},"routes":[{"handle":[
			{"handler":"encode","encodings":{"gzip":{}},"minimum_length":1,"prefer":["gzip"]},
			{"handler":"card_test_accepted","behind":[{"handler":"card_translate"},
			`+terminals[terminal]+`]}]}]}}}}}`, socket, server.Listener.Addr())
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	transport := &http.Transport{
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestBehindTheProxy runs the handler in its usual place, between encode and the
// handler that forwards, with an issuer on the network.
func TestBehindTheProxy(t *testing.T) {
	for terminal := range terminals {
		t.Run(terminal, func(t *testing.T) { behindTheProxy(t, terminal) })
	}
}

func behindTheProxy(t *testing.T, terminal string) {
	client := translatingProxy(t, terminal, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `"e"`)
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Seen", r.Header.Get("Accept-Encoding")+" "+r.Header.Get("Content-Length"))
			_, _ = w.Write(body)
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, customerA)
		case "/chunked":
			for _, part := range strings.SplitAfter(customerA, ",") {
				_, _ = io.WriteString(w, part)
				w.(http.Flusher).Flush()
			}
		case "/trailers":
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, customerA)
			w.Header().Set("X-Sum", "1")
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(compressed(t, customerA))
		case "/cut":
			w.Header().Set("Content-Length", strconv.Itoa(len(customerA)))
			_, _ = io.WriteString(w, customerA[:40])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/large":
			w.WriteHeader(http.StatusOK)
			for range request.MaxAnswer>>20 + 1 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		case "/conflict":
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"first_name":"exists"}`)
		}
	})
	for _, c := range []struct {
		name, method, path, operation, variant, body, accept string
		status                                               int
		want                                                 string // of the body; "": not looked at
	}{
		{"created", "POST", "/echo", "create_customer", "", customerC, "", 200, customerB},
		{"read", "GET", "/chunked", "get_customer", "C", "", "", 200, customerB},
		{"early hints", "GET", "/hints", "get_customer", "C", "", "", 200, customerB},
		{"trailers", "GET", "/trailers", "get_customer", "C", "", "", 200, customerB},
		{"compressed by the issuer", "GET", "/gzip", "get_customer", "C", "", "", 200, customerB},
		{"compressed for the client", "GET", "/chunked", "get_customer", "C", "", "gzip", 200, ""},
		{"head", "HEAD", "/chunked", "get_customer", "C", "", "", 200, ""},
		{"cut off", "GET", "/cut", "get_customer", "C", "", "", 502, ""},
		{"too large", "GET", "/large", "get_customer", "C", "", "", 502, ""},
		{"conflict", "POST", "/conflict", "create_customer", "", customerC, "", 409, `{"first_name":"exists"}`},
		{"invalid", "POST", "/echo", "create_customer", "", `{}`, "", 422, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), c.method, "http://gateway"+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Operation", c.operation)
			r.Header.Set("Variant", c.variant)
			r.Header.Set("Content-Type", "application/json")
			if c.accept != "" {
				r.Header.Set("Accept-Encoding", c.accept)
			}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != c.status || c.want != "" && string(body) != c.want {
				t.Errorf("%d %s\nwant %d %s", answer.StatusCode, body, c.status, c.want)
			}
			if c.status == 200 && answer.Header.Get("Etag") != "" || answer.Header.Get("X-Sum") != "" || len(answer.Trailer) > 0 {
				t.Errorf("headers %v, trailers %v", answer.Header, answer.Trailer)
			}
			if seen := answer.Header.Get("X-Seen"); seen != "" && seen != "identity "+strconv.Itoa(len(customerA)) {
				t.Errorf("the issuer saw %s", seen)
			}
			if got := answer.Header.Get("Content-Encoding"); got != c.accept {
				t.Errorf("content encoding %q, want %q", got, c.accept)
			}
			if c.status == 502 && strings.Contains(string(body), "first_name") {
				t.Errorf("shows %s", body)
			}
		})
	}
}
