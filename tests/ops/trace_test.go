package ops

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A collector takes spans by OTLP over HTTP and keeps the raw bytes.
type collector struct {
	url string
	mu  sync.Mutex
	got bytes.Buffer
}

func startCollector(t testing.TB) *collector {
	t.Helper()
	c := new(collector)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Encoding") != "" {
			t.Errorf("the collector was sent %s with %v: %v", r.URL, r.Header, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got.Write(body)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// raw returns all bytes that have arrived so far.
func (c *collector) raw() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got.String()
}

// environment returns the variables that contain the collector's address for a
// gateway.
func (c *collector) environment() []string {
	return []string{
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_BSP_SCHEDULE_DELAY=20",
	}
}

const tracing = "tracing {\nspan gateway\n}"

// TestTracing checks the gateway's attributes on the span of Caddy's tracing
// directive, and follows a trace from the client to the upstream.
func TestTracing(t *testing.T) { harness.EachTerminal(t, testTracing) }

func testTracing(t *testing.T, terminal string) {
	u, c := harness.StartUpstream(t), startCollector(t)
	g := harness.NewGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Limits: harness.WithLimits, Extra: tracing})
	g.Env = c.environment()
	g.Start()
	key := g.NewKey(nil)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	r := key.Get().Add("traceparent", "00-"+trace+"-00f067aa0ba902b7-01").Set("X-Request-Id", "traced-1")
	harness.WantAccepted(t, g.Send(t, r))
	if got := u.One(t).Value("Traceparent"); !strings.HasPrefix(got, "00-"+trace+"-") || strings.Contains(got, "00f067aa0ba902b7") {
		t.Errorf("the upstream was sent the traceparent %q, want a span of the client's trace", got)
	}
	harness.WantUnauthorized(t, g.Send(t, key.Post().Forge().Set("X-Request-Id", "traced-2")), harness.WrongSignature)
	id, _ := hex.DecodeString(trace)
	for _, want := range []string{
		string(id), "card_gateway.outcome", "accepted", "signature_mismatch", "card_gateway.operation", "get_card", "issue_card",
		"card_gateway.key_id", key.ID, "card_gateway.tenant", "acme", "card_gateway.request_id", "traced-1", "traced-2",
		"card_gateway.overhead_seconds",
	} {
		harness.Eventually(t, "the spans have "+want, func() bool { return strings.Contains(c.raw(), want) })
	}
}

// TestCollectorIsDown has traces that nobody takes: the log says so, and requests go on.
func TestCollectorIsDown(t *testing.T) {
	t.Parallel()
	c := collector{url: "http://" + harness.FreeAddress(t)}
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr, Extra: tracing})
	g.Env = c.environment()
	g.Start()
	harness.WantAccepted(t, g.Send(t, g.NewKey(nil).Get()))
	g.Logged("default.log", "spans are lost: the collector of traces does not take them; see OTEL_EXPORTER_OTLP_ENDPOINT")
}

// TestCanaryOfOperations sends the canaries through everything that reports keys
// and requests to operators: audit log, events and traces. None of them may
// contain secrets or card data.
func TestCanaryOfOperations(t *testing.T) { harness.EachTerminal(t, testCanaryOfOperations) }

func testCanaryOfOperations(t *testing.T, terminal string) {
	u, spans := harness.StartUpstream(t), startCollector(t)
	g := harness.NewGateway(t, harness.Site{
		Upstream: u.Addr, Terminal: terminal, Auth: "max_body 10KiB", Limits: harness.WithLimits, Extra: tracing,
		Global: "limit issue_card 2/1d\nlock_after 3", AnswerTimeout: "500ms",
	})
	g.Env = spans.environment()
	g.Start()
	c := make(harness.Canaries)
	keys := c.Keys(g)
	requests := c.Requests(keys)
	for _, with := range c.Replies() {
		u.Replies(with)
		for _, r := range requests() {
			for _, name := range []string{"X-Signature", "X-Nonce", "X-Body-Hash"} {
				if value := r.Value(name); value != "" {
					c.Add(name+" "+value[:8], value)
				}
			}
			_, _ = g.Try(r)
		}
	}
	changeEverything(t, g, c, keys)

	for _, action := range []string{"create", "import", "update", "disable", "enable", "lock", "unlock", "rotate", "delete"} {
		g.Logged("default.log", `"logger":"card_gateway.audit"`, `"action":"`+action+`"`, `"result":"ok"`)
	}
	g.Logged("default.log", `"logger":"card_gateway.audit"`, `"result":"refused"`)
	for _, event := range []string{"created", "disabled", "enabled", "locked", "unlocked", "rotated", "deleted"} {
		g.Logged("default.log", `"logger":"events"`, `"name":"card_gateway.key_`+event+`"`, `"key_id":"`, `"tenant":"acme"`, `"actor":"`)
	}
	g.Stop() // sends the last spans
	for _, outcome := range []string{"accepted", "signature_mismatch", "bad_target", "key_disabled", "upstream_error", "card_gateway.key_id"} {
		if !strings.Contains(spans.raw(), outcome) {
			t.Errorf("no span says %s, so that nothing is proven", outcome)
		}
	}
	c.Search(t, "the traces", spans.raw())
	c.SearchGateway(t, g)
}

// changeEverything makes each kind of change of keys, and some that are refused.
func changeEverything(t testing.TB, g *harness.Gateway, c harness.Canaries, keys []harness.Credentials) {
	t.Helper()
	key := g.NewKey(nil)
	c.Add("secret of a changed key", key.Secret)
	g.Change(key, harness.Fields{"scopes": []string{"cards:read"}, "description": "changed"})
	for _, action := range []string{"disable", "enable", "rotate"} {
		if secret := g.Do(key, action).Secret; secret != "" {
			c.Add("rotated secret", secret)
		}
	}
	g.Series(t, key.Forged(4)) // the last one locks the key
	g.Do(key, "unlock")
	g.KeyCall(http.MethodDelete, "/"+key.ID, nil)
	for what, body := range map[string]harness.Fields{
		"a secret in use": {"id": "another", "secret": keys[3].Secret, "tenant": "acme", "scopes": []string{"*"}},
		"a short secret":  {"id": "another", "secret": c.Add("short secret", "CANARYshort"), "tenant": "acme", "scopes": []string{"*"}},
		"an unknown name": {"id": "another", "secret": c.Add("lost secret", "CANARYlost_0123456789"), "CANARYfield": c.Add("unknown field", "CANARYvalue")},
	} {
		status, answer := g.Admin(http.MethodPost, "/card-gateway/keys/import", "application/json", harness.JSONText(t, body))
		if status/100 != 4 {
			t.Errorf("an import of %s is answered %d %s", what, status, answer)
		}
		c.Search(t, "the answer to an import", answer)
	}
	status, answer := g.Admin(http.MethodPatch, "/card-gateway/keys/"+keys[0].ID, "application/json", `{"secret":"`+c.Add("patched secret", "CANARYpatched")+`"}`)
	if status/100 != 4 {
		t.Errorf("a secret of the client's own is answered %d %s", status, answer)
	}
	c.Search(t, "the answer to a change", answer)
}
