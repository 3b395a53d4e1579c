package tests

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
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

// raw returns all that has come so far.
func (c *collector) raw() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got.String()
}

// environment tells a gateway where the collector is.
func (c *collector) environment() []string {
	return []string{
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_BSP_SCHEDULE_DELAY=20",
	}
}

// startWith starts the gateway with further variables in its environment.
func (g *gateway) startWith(env []string) {
	g.t.Helper()
	out, err := os.OpenFile(g.path("stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		g.t.Fatal(err)
	}
	defer out.Close()
	for range 5 {
		g.addr = freeAddress(g.t)
		g.write("Caddyfile", g.caddyfile())
		g.cmd = g.command("run", "--config", g.path("Caddyfile"), "--adapter", "caddyfile")
		g.cmd.Env = append(g.cmd.Env, env...)
		g.cmd.Stdout, g.cmd.Stderr, g.done = out, out, make(chan struct{})
		if err := g.cmd.Start(); err != nil {
			g.t.Fatal(err)
		}
		go func() {
			_ = g.cmd.Wait()
			close(g.done)
		}()
		if g.becomesReady() {
			return
		}
		<-g.done // somebody else has taken the port
	}
	g.t.Fatalf("the gateway did not become ready:\n%s", g.said(4000))
}

const tracing = "tracing {\nspan gateway\n}"

// TestTracing looks for what the gateway says on the span of Caddy's tracing
// directive, and follows a trace from the client to the upstream.
func TestTracing(t *testing.T) {
	t.Parallel()
	u, c := startUpstream(t), startCollector(t)
	g := newGateway(t, site{upstream: u.addr, limits: withLimits, extra: tracing})
	g.startWith(c.environment())
	key := g.newKey(nil)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	r := key.get().add("traceparent", "00-"+trace+"-00f067aa0ba902b7-01").set("X-Request-Id", "traced-1")
	accepted(t, g.send(t, r))
	if got := u.one(t).value("Traceparent"); !strings.HasPrefix(got, "00-"+trace+"-") || strings.Contains(got, "00f067aa0ba902b7") {
		t.Errorf("the upstream was sent the traceparent %q, want a span of the client's trace", got)
	}
	unauthorized(t, g.send(t, key.post().forge().set("X-Request-Id", "traced-2")), wrongSignature)
	id, _ := hex.DecodeString(trace)
	for _, want := range []string{
		string(id), "card_gateway.outcome", "accepted", "signature_mismatch", "card_gateway.operation", "get_card", "issue_card",
		"card_gateway.key_id", key.id, "card_gateway.tenant", "acme", "card_gateway.request_id", "traced-1", "traced-2",
		"card_gateway.overhead_seconds",
	} {
		eventually(t, "the spans have "+want, func() bool { return strings.Contains(c.raw(), want) })
	}
}

// TestCanaryOfOperations sends the canaries through everything that tells
// operators of keys and requests: audit log, events and traces. Secrets and
// card data must be in none.
func TestCanaryOfOperations(t *testing.T) {
	t.Parallel()
	u, spans := startUpstream(t), startCollector(t)
	g := newGateway(t, site{
		upstream: u.addr, auth: "max_body 10KiB", limits: withLimits, extra: tracing,
		global: "limit issue_card 2/1d\nlock_after 3", proxy: "transport http {\nresponse_header_timeout 500ms\n}",
	})
	g.startWith(spans.environment())
	c := make(canaries)
	keys := canaryKeys(g, c)
	requests := canaryRequests(c, keys)
	for _, with := range canaryReplies(c) {
		u.replies(with)
		for _, r := range requests() {
			for _, name := range []string{"X-Signature", "X-Nonce", "X-Body-Hash"} {
				if value := r.value(name); value != "" {
					c.add(name+" "+value[:8], value)
				}
			}
			_, _ = g.try(r)
		}
	}
	g.changeEverything(t, c, keys)

	for _, action := range []string{"create", "import", "update", "disable", "enable", "lock", "unlock", "rotate", "delete"} {
		g.logged("default.log", `"logger":"card_gateway.audit"`, `"action":"`+action+`"`, `"result":"ok"`)
	}
	g.logged("default.log", `"logger":"card_gateway.audit"`, `"result":"failed"`)
	for _, event := range []string{"created", "disabled", "enabled", "locked", "unlocked", "rotated", "deleted"} {
		g.logged("default.log", `"logger":"events"`, `"name":"card_gateway.key_`+event+`"`, `"key_id":"`, `"tenant":"acme"`, `"actor":"`)
	}
	g.stop() // sends the last spans
	for _, outcome := range []string{"accepted", "signature_mismatch", "bad_target", "key_disabled", "upstream_error", "card_gateway.key_id"} {
		if !strings.Contains(spans.raw(), outcome) {
			t.Errorf("no span says %s, so that nothing is proven", outcome)
		}
	}
	c.search(t, "the traces", spans.raw())
	searchEverything(t, g, c)
}

// changeEverything makes each change that there is of keys, and some that are
// refused.
func (g *gateway) changeEverything(t testing.TB, c canaries, keys []credentials) {
	t.Helper()
	key := g.newKey(nil)
	c.add("secret of a changed key", key.secret)
	g.change(key, fields{"scopes": []string{"cards:read"}, "description": "changed"})
	for _, action := range []string{"disable", "enable", "rotate"} {
		if secret := g.do(key, action).Secret; secret != "" {
			c.add("rotated secret", secret)
		}
	}
	g.series(t, key.forged(4)) // the last one locks
	g.do(key, "unlock")
	g.keyCall(http.MethodDelete, "/"+key.id, nil)
	for what, body := range map[string]fields{
		"a secret in use": {"id": "another", "secret": keys[3].secret, "tenant": "acme", "scopes": []string{"*"}},
		"a short secret":  {"id": "another", "secret": c.add("short secret", "CANARYshort"), "tenant": "acme", "scopes": []string{"*"}},
		"an unknown name": {"id": "another", "secret": c.add("lost secret", "CANARYlost_0123456789"), "CANARYfield": c.add("unknown field", "CANARYvalue")},
	} {
		status, answer := g.admin(http.MethodPost, "/card-gateway/keys/import", "application/json", jsonText(t, body))
		if status/100 != 4 {
			t.Errorf("an import of %s is answered %d %s", what, status, answer)
		}
		c.search(t, "the answer to an import", answer)
	}
	status, answer := g.admin(http.MethodPatch, "/card-gateway/keys/"+keys[0].id, "application/json", `{"secret":"`+c.add("patched secret", "CANARYpatched")+`"}`)
	if status/100 != 4 {
		t.Errorf("a secret of the client's own is answered %d %s", status, answer)
	}
	c.search(t, "the answer to a change", answer)
}
