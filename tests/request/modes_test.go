package request

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestGenericMessages hides which of rules 2 to 10 failed.
func TestGenericMessages(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Auth: "generic_messages", Global: "lock_after 2"})
	key := g.NewKey(nil)
	disabled := g.NewKey(harness.Fields{"disabled": true})
	expired := g.NewKey(nil)
	g.Change(expired, harness.Fields{"expires_at": harness.Moment(time.Now().Add(-time.Minute))})
	outside := g.NewKey(harness.Fields{"allowed_ips": []string{"203.0.113.7"}})
	locked := g.NewKey(nil)
	used := key.Get()
	harness.WantAccepted(t, g.Send(t, used))
	bodies := make(map[string]bool)
	for name, r := range map[string]*harness.Request{
		"unknown":  harness.Credentials{ID: "nobody", Secret: "x"}.Get(),
		"disabled": disabled.Get(), "expired": expired.Get(), "outside": outside.Get(),
		"late": key.RequestAt(time.Now().Add(-time.Hour), "GET", "/api/v1/cards/c1", ""),
		"used": used, "hash": key.Post().Set("X-Body-Hash", harness.BodyHash("")).Sign(key.Secret), "signature": locked.Get().Forge(),
	} {
		got := g.Send(t, r)
		harness.WantRefused(t, got, http.StatusUnauthorized, "UNAUTHORIZED")
		bodies[got.Body] = true
		if t.Failed() {
			t.Fatal(name)
		}
	}
	g.Series(t, locked.Forged(1))
	bodies[g.Send(t, locked.Get()).Body] = true
	if len(bodies) != 1 {
		t.Errorf("rules 2 to 10 are answered in %d ways: %v", len(bodies), bodies)
	}
	harness.WantUnauthorized(t, g.Send(t, key.Get().Drop("X-Nonce")), harness.MissingHeaders)
	// The operator still sees the reason.
	g.Logged("access.log", `"outcome":"key_locked"`)
	g.Logged("access.log", `"outcome":"ip_not_allowed"`)
}

// TestDryRun: every request passes, except ambiguous and too large ones. The
// gateway reports what it would have refused, and counts no failures.
func TestDryRun(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	u.Trusts("the gateway is in dry run")
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Auth: "dry_run\nmax_body 1KiB", Limits: harness.WithLimits, Global: "lock_after 2\nlimit get_card 1/1d"})
	key := g.NewKey(harness.Fields{"scopes": []string{"cards:read"}})
	used := key.Get()
	for _, c := range []struct {
		outcome  string
		r        *harness.Request
		identity bool
	}{
		{"accepted", used, true},
		{"would_refuse_replayed_nonce", used, false},
		{"would_refuse_missing_headers", &harness.Request{Method: "GET", Target: "/api/v1/cards/c1"}, false},
		{"would_refuse_unknown_key", harness.Credentials{ID: "nobody", Secret: "x"}.Post(), false},
		{"would_refuse_signature_mismatch", key.Get().Forge(), false},
		{"would_refuse_signature_mismatch", key.Get().Forge(), false},
		{"would_refuse_signature_mismatch", key.Get().Forge(), false},
		{"would_refuse_signature_mismatch", key.Request("PUT", "/api/v1/orders", `{"a":1}`).Forge(), false},
		{"would_refuse_body_hash_mismatch", key.Post().Set("X-Body-Hash", harness.BodyHash("")).Sign(key.Secret), false},
		{"would_refuse_timestamp_out_of_window", key.RequestAt(time.Now().Add(-time.Hour), "POST", "/api/v1/cards", "{}"), false},
		{"would_refuse_scope_missing", key.Post(), false},
		{"would_refuse_rate_limited", key.Get(), true},
		{"would_refuse_method_not_allowed", key.Request("OPTIONS", "/api/v1/cards/c1", ""), false},
	} {
		r := c.r.Set("X-Request-Id", strings.ReplaceAll(c.outcome, "_", "-")).Set("X-Gateway-Tenant", "evil")
		harness.WantAccepted(t, g.Send(t, r))
		got := u.One(t)
		if got.Line != r.Method+" "+r.Target+" HTTP/1.1" || got.Body != r.Body {
			t.Errorf("%s: the upstream received\n%s", c.outcome, got.Raw())
		}
		for _, name := range []string{"X-Api-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature"} {
			wantHeaders(t, got, map[string]string{name: ""})
		}
		tenant := ""
		if c.identity {
			tenant = "acme"
		}
		wantHeaders(t, got, map[string]string{"X-Gateway-Tenant": tenant, "X-Request-Id": r.Value("X-Request-Id")})
		g.Logged("access.log", `"outcome":"`+c.outcome+`"`, r.Value("X-Request-Id"))
		if t.Failed() {
			t.Fatal(c.outcome)
		}
	}
	g.WantFailures(t, key, 0)
	harness.WantRefused(t, g.Send(t, key.Request("POST", "/api/v1/cards", strings.Repeat("x", 2000))), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	harness.WantRefused(t, g.Send(t, key.Request("GET", "/api/v1//cards", "")), http.StatusBadRequest, "BAD_REQUEST")
	u.None(t)

	// Nonces that were recorded in the dry run are known after it.
	s := g.Site
	s.Auth = ""
	g.Reload(s)
	harness.WantUnauthorized(t, g.Send(t, used), harness.Replayed)
}

// TestBodySizes sends bodies around max_body, the operation's own included.
func TestBodySizes(t *testing.T) { harness.EachTerminal(t, testBodySizes) }

func testBodySizes(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Upstream: u.Addr, Terminal: terminal, Auth: "max_body 1000",
		Global: "operation upload_documents POST /api/v1/documents documents:write max_body 3000",
	})
	key := g.NewKey(nil)
	for _, c := range []struct {
		target string
		size   int
		fits   bool
	}{
		{"/api/v1/cards", 1000, true}, {"/api/v1/cards", 1001, false},
		{"/api/v1/documents", 3000, true}, {"/api/v1/documents", 3001, false}, {"/api/v1/documents/", 3001, false}, {"/api/v1/documents/a", 1001, false},
	} {
		for _, r := range []*harness.Request{
			key.Request(http.MethodPost, c.target, strings.Repeat("x", c.size)),
			chunked(key.Request(http.MethodPost, c.target, strings.Repeat("x", c.size))),
		} {
			got := g.Send(t, r)
			if c.fits {
				harness.WantAccepted(t, got)
				if n := len(u.One(t).Body); n != c.size {
					t.Errorf("the upstream received %d bytes, want %d", n, c.size)
				}
			} else {
				harness.WantRefused(t, got, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
				u.None(t)
			}
			if t.Failed() {
				t.Fatalf("%d bytes to %s", c.size, c.target)
			}
		}
	}
	g.WantFailures(t, key, 0)
}

// chunked sends the same body in chunks.
func chunked(r *harness.Request) *harness.Request {
	r.Body = chunk(r.Body[:1]) + chunk(r.Body[1:]) + "0\r\n\r\n"
	return r.Set("Transfer-Encoding", "chunked")
}

// TestReadiness requests /readyz and /livez.
func TestReadiness(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	for path, want := range map[string]string{"/readyz": `{"status":"ready"}`, "/livez": `{"status":"live"}`} {
		got := g.Send(t, &harness.Request{Method: "GET", Target: path})
		if got.Status != http.StatusOK || strings.TrimSpace(got.Body) != want {
			t.Errorf("%s is answered %s, want %s", path, got, want)
		}
	}
	got := g.Send(t, &harness.Request{Method: "GET", Target: "/elsewhere"})
	if got.Status != http.StatusNotFound || !strings.Contains(got.Body, "NOT_FOUND") {
		t.Errorf("outside of /api/v1/ the answer is %s", got)
	}
	u.None(t)
}

// TestBodyBudget: a key whose bodies do not arrive uses its share of the memory
// and no more, and requests with used nonces use nothing.
func TestBodyBudget(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "body_budget 8MiB\nbody_share 1/8"})
	greedy, other := g.NewKey(nil), g.NewKey(nil)
	body := strings.Repeat("x", 600<<10)
	post := func(key harness.Credentials) *harness.Request {
		return key.Request(http.MethodPost, "/api/v1/cards", body)
	}

	// Announced lengths use no memory: these are more than the budget.
	for range 20 {
		g.Connect(t).WriteText(t, post(greedy).Head())
	}
	spent := post(greedy)
	harness.WantAccepted(t, g.Send(t, spent))
	u.One(t)
	for range 8 { // nor do bodies of requests with used nonces
		g.Connect(t).WriteText(t, spent.Head()+body[1:])
	}
	harness.WantAccepted(t, g.Send(t, post(greedy)))
	u.One(t)

	held := func() float64 { return g.Scrape(t)["card_gateway_body_bytes"] }
	g.Connect(t).WriteText(t, post(greedy).Head()+body[1:])
	harness.Eventually(t, "the body is held", func() bool { return held() >= 600<<10 })
	refused := post(greedy)
	got := g.Send(t, refused.Set("X-Request-Id", "over-the-share"))
	harness.WantRefused(t, got, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if got.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	g.Logged("default.log", `"request_id":"over-the-share"`, "holder "+greedy.ID)
	// Other keys are not affected, and a sender without the secret uses no memory.
	harness.WantAccepted(t, g.Send(t, post(other)))
	u.One(t)
	harness.WantUnauthorized(t, g.Send(t, post(greedy).Forge()), harness.WrongSignature)
}

// TestBodyIsGivenBack: when a body was sent to the issuer, its memory is released,
// even if the answer takes long.
func TestBodyIsGivenBack(t *testing.T) { harness.EachTerminal(t, testBodyIsGivenBack) }

func testBodyIsGivenBack(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	served := make(chan struct{})
	u.Replies(harness.Reply{Raw: harness.Answer(200, "{}").Raw, Wait: served})
	first := key.Request(http.MethodPost, "/api/v1/cards", strings.Repeat("x", 600<<10))
	w := g.Connect(t)
	w.WriteText(t, first.Head()+first.Body)
	harness.Eventually(t, "the request was forwarded", func() bool { return len(u.Took()) == 1 })
	harness.Eventually(t, "nothing is held", func() bool { return g.Scrape(t)["card_gateway_body_bytes"] == 0 })
	close(served)
	answer, err := w.Receive(http.MethodPost)
	if err != nil {
		t.Fatal(err)
	}
	harness.WantAccepted(t, answer)
}
