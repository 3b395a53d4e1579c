package tests

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestGenericMessages hides which of rules 2 to 10 failed.
func TestGenericMessages(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, auth: "generic_messages", global: "lock_after 2"})
	key := g.newKey(nil)
	disabled := g.newKey(fields{"disabled": true})
	expired := g.newKey(nil)
	g.change(expired, fields{"expires_at": moment(time.Now().Add(-time.Minute))})
	outside := g.newKey(fields{"allowed_ips": []string{"203.0.113.7"}})
	locked := g.newKey(nil)
	used := key.get()
	accepted(t, g.send(t, used))
	bodies := make(map[string]bool)
	for name, r := range map[string]*request{
		"unknown":  credentials{"nobody", "x"}.get(),
		"disabled": disabled.get(), "expired": expired.get(), "outside": outside.get(),
		"late": key.requestAt(time.Now().Add(-time.Hour), "GET", "/api/v1/cards/c1", ""),
		"used": used, "hash": key.post().set("X-Body-Hash", bodyHash("")).sign(key.secret), "signature": locked.get().forge(),
	} {
		got := g.send(t, r)
		refused(t, got, http.StatusUnauthorized, "UNAUTHORIZED")
		bodies[got.body] = true
		if t.Failed() {
			t.Fatal(name)
		}
	}
	g.series(t, locked.forged(1))
	bodies[g.send(t, locked.get()).body] = true
	if len(bodies) != 1 {
		t.Errorf("rules 2 to 10 are answered in %d ways: %v", len(bodies), bodies)
	}
	unauthorized(t, g.send(t, key.get().drop("X-Nonce")), missingHeaders)
	// The operator still sees the reason.
	g.logged("access.log", `"outcome":"key_locked"`)
	g.logged("access.log", `"outcome":"ip_not_allowed"`)
}

// TestDryRun lets everything pass that is neither ambiguous nor too large,
// says what it would have refused, and counts nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, auth: "dry_run\nmax_body 1KiB", limits: withLimits, global: "lock_after 2\nlimit get_card 1/1d"})
	key := g.newKey(fields{"scopes": []string{"cards:read"}})
	used := key.get()
	for _, c := range []struct {
		outcome  string
		r        *request
		identity bool
	}{
		{"accepted", used, true},
		{"would_refuse_replayed_nonce", used, false},
		{"would_refuse_missing_headers", &request{method: "GET", target: "/api/v1/cards/c1"}, false},
		{"would_refuse_unknown_key", credentials{"nobody", "x"}.post(), false},
		{"would_refuse_signature_mismatch", key.get().forge(), false},
		{"would_refuse_signature_mismatch", key.get().forge(), false},
		{"would_refuse_signature_mismatch", key.get().forge(), false},
		{"would_refuse_signature_mismatch", key.request("PUT", "/api/v1/orders", `{"a":1}`).forge(), false},
		{"would_refuse_body_hash_mismatch", key.post().set("X-Body-Hash", bodyHash("")).sign(key.secret), false},
		{"would_refuse_timestamp_out_of_window", key.requestAt(time.Now().Add(-time.Hour), "POST", "/api/v1/cards", "{}"), false},
		{"would_refuse_scope_missing", key.post(), false},
		{"would_refuse_rate_limited", key.get(), true},
		{"would_refuse_method_not_allowed", key.request("OPTIONS", "/api/v1/cards/c1", ""), false},
	} {
		r := c.r.set("X-Request-Id", strings.ReplaceAll(c.outcome, "_", "-")).set("X-Gateway-Tenant", "evil")
		accepted(t, g.send(t, r))
		got := u.one(t)
		if got.line != r.method+" "+r.target+" HTTP/1.1" || got.body != r.body {
			t.Errorf("%s: the upstream received\n%s", c.outcome, got.raw())
		}
		for _, name := range []string{"X-Api-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature"} {
			wantHeaders(t, got, map[string]string{name: ""})
		}
		tenant := ""
		if c.identity {
			tenant = "acme"
		}
		wantHeaders(t, got, map[string]string{"X-Gateway-Tenant": tenant, "X-Request-Id": r.value("X-Request-Id")})
		g.logged("access.log", `"outcome":"`+c.outcome+`"`, r.value("X-Request-Id"))
		if t.Failed() {
			t.Fatal(c.outcome)
		}
	}
	g.wantFailures(t, key, 0)
	refused(t, g.send(t, key.request("POST", "/api/v1/cards", strings.Repeat("x", 2000))), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	refused(t, g.send(t, key.request("GET", "/api/v1//cards", "")), http.StatusBadRequest, "BAD_REQUEST")
	u.none(t)

	// What was seen in the dry run is known when it ends.
	s := g.site
	s.auth = ""
	g.reload(s)
	unauthorized(t, g.send(t, used), replayed)
}

// TestBodySizes sends bodies around max_body, the operation's own included.
func TestBodySizes(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{
		upstream: u.addr, auth: "max_body 1000",
		global: "operation upload_documents POST /api/v1/documents documents:write max_body 3000",
	})
	key := g.newKey(nil)
	for _, c := range []struct {
		target string
		size   int
		fits   bool
	}{
		{"/api/v1/cards", 1000, true}, {"/api/v1/cards", 1001, false},
		{"/api/v1/documents", 3000, true}, {"/api/v1/documents", 3001, false}, {"/api/v1/documents/", 1001, false},
	} {
		for _, r := range []*request{
			key.request(http.MethodPost, c.target, strings.Repeat("x", c.size)),
			chunked(key.request(http.MethodPost, c.target, strings.Repeat("x", c.size))),
		} {
			got := g.send(t, r)
			if c.fits {
				accepted(t, got)
				if n := len(u.one(t).body); n != c.size {
					t.Errorf("the upstream received %d bytes, want %d", n, c.size)
				}
			} else {
				refused(t, got, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
				u.none(t)
			}
			if t.Failed() {
				t.Fatalf("%d bytes to %s", c.size, c.target)
			}
		}
	}
	g.wantFailures(t, key, 0)
}

// chunked sends the same body in chunks.
func chunked(r *request) *request {
	r.body = chunk(r.body[:1]) + chunk(r.body[1:]) + "0\r\n\r\n"
	return r.set("Transfer-Encoding", "chunked")
}

// TestReadiness asks /readyz and /livez.
func TestReadiness(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	for path, want := range map[string]string{"/readyz": `{"status":"ready"}`, "/livez": `{"status":"live"}`} {
		got := g.send(t, &request{method: "GET", target: path})
		if got.status != http.StatusOK || strings.TrimSpace(got.body) != want {
			t.Errorf("%s is answered %s, want %s", path, got, want)
		}
	}
	got := g.send(t, &request{method: "GET", target: "/elsewhere"})
	if got.status != http.StatusNotFound || !strings.Contains(got.body, "NOT_FOUND") {
		t.Errorf("outside of /api/v1/ the answer is %s", got)
	}
	u.none(t)
}

// TestBodyBudget holds more bodies at once than may be held in memory.
func TestBodyBudget(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, global: "body_budget 1MiB"})
	key := g.newKey(nil)
	body := strings.Repeat("x", 600<<10)

	// Announcements take nothing of it: here is ten times the budget.
	for range 20 {
		g.connect(t).write(t, key.request(http.MethodPost, "/api/v1/cards", body).head())
	}
	accepted(t, g.send(t, key.request(http.MethodPost, "/api/v1/cards", body)))
	u.one(t)

	served := make(chan struct{})
	u.replies(reply{raw: answer(200, "{}").raw, wait: served})
	first := key.request(http.MethodPost, "/api/v1/cards", body)
	w := g.connect(t)
	w.write(t, first.head()+body)
	eventually(t, "the first request was forwarded", func() bool { return len(u.took()) == 1 })
	second := key.request(http.MethodPost, "/api/v1/cards", body)
	got := g.send(t, second)
	refused(t, got, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if got.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	// Who has not proven to hold the secret takes none of it.
	unauthorized(t, g.send(t, key.request(http.MethodPost, "/api/v1/cards", body).forge()), wrongSignature)
	close(served)
	answer, err := w.receive(http.MethodPost)
	if err != nil {
		t.Fatal(err)
	}
	accepted(t, answer)
	accepted(t, g.send(t, second)) // nothing of it was spent by the 503
}
