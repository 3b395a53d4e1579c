package tests

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limitHeaders are the headers of an answer that speak of limits.
type limitHeaders struct{ limit, remaining, reset int64 }

func limitsOf(t testing.TB, r *response) limitHeaders {
	t.Helper()
	number := func(name string) int64 {
		values := r.header.Values(name)
		if len(values) != 1 {
			t.Errorf("%s of %s is %q, want one value", name, r, values)
			return -1
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 0 {
			t.Errorf("%s of %s is %q", name, r, values[0])
		}
		return n
	}
	return limitHeaders{number("X-Ratelimit-Limit"), number("X-Ratelimit-Remaining"), number("X-Ratelimit-Reset")}
}

// wantLeft checks Limit and Remaining.
func wantLeft(t testing.TB, r *response, limit, remaining int64) {
	t.Helper()
	if got := limitsOf(t, r); got.limit != limit || got.remaining != remaining {
		t.Errorf("%s says limit %d and %d left, want %d and %d", r, got.limit, got.remaining, limit, remaining)
	}
}

func noLimitHeaders(t testing.TB, r *response) {
	t.Helper()
	for name := range r.header {
		if strings.Contains(strings.ToLower(name), "ratelimit") || name == "Retry-After" {
			t.Errorf("%s has the header %s", r, name)
		}
	}
}

// limited checks a refusal by a limit and returns after how many seconds the
// client may come again.
func limited(t testing.TB, r *response) int64 {
	t.Helper()
	refused(t, r, http.StatusTooManyRequests, "RATE_LIMITED")
	if got := limitsOf(t, r); got.remaining != 0 {
		t.Errorf("%s says that %d are left", r, got.remaining)
	}
	seconds, err := strconv.ParseInt(r.header.Get("Retry-After"), 10, 64)
	if err != nil || seconds < 1 {
		t.Errorf("Retry-After of %s is %q", r, r.header.Get("Retry-After"))
	}
	return seconds
}

// TestLimitIsExact sends 200 requests at once against a limit of 50 a day.
func TestLimitIsExact(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, limits: withLimits, global: "limit get_card 50/1d"})
	key := g.newKey(nil)
	requests := make([]*request, 200)
	for i := range requests {
		requests[i] = key.get()
	}
	answers := g.atOnce(t, requests)
	if got := count(answers); got[http.StatusOK] != 50 || got[http.StatusTooManyRequests] != 150 {
		t.Errorf("of 200 requests against 50 a day the answers are %v", got)
	}
	var left []int64
	for _, r := range answers {
		if r.status == http.StatusOK {
			left = append(left, limitsOf(t, r).remaining)
		} else {
			limited(t, r)
		}
	}
	slices.Sort(left)
	for i, n := range left {
		if n != int64(i) {
			t.Fatalf("Remaining of the accepted requests: %v, want 0 to 49 once each", left)
		}
	}
	if got := len(u.took()); got != 50 {
		t.Errorf("the upstream received %d requests", got)
	}
	// The counters survive a reload; another operation has a bucket of its own.
	s := g.site
	s.global += "\nlock_after 40"
	g.reload(s)
	limited(t, g.send(t, key.get()))
	accepted(t, g.send(t, key.post()))
	wantLeft(t, g.send(t, g.newKey(nil).get()), 50, 49)
}

// TestJunkSpendsNothing sends what is refused before the limits, then looks
// what is left.
func TestJunkSpendsNothing(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, limits: withLimits, global: "limit get_card 5/1d\nlock_after 1000"})
	key := g.newKey(fields{"scopes": []string{"cards:read"}})
	for _, r := range g.series(t, key.forged(100)) {
		unauthorized(t, r, wrongSignature)
		noLimitHeaders(t, r)
	}
	used := key.get()
	wantLeft(t, g.send(t, used), 5, 4)
	got := g.send(t, used)
	unauthorized(t, got, replayed)
	noLimitHeaders(t, got)
	got = g.send(t, key.post())
	refused(t, got, http.StatusForbidden, "FORBIDDEN")
	noLimitHeaders(t, got)
	noLimitHeaders(t, g.send(t, key.requestAt(time.Now().Add(-time.Hour), "GET", "/api/v1/cards/c1", "")))

	// Errors of the upstream do spend.
	u.replies(answer(500, "oops", "X-RateLimit-Remaining: 77"))
	got = g.send(t, key.get())
	if got.status != 500 {
		t.Errorf("answer is %s", got)
	}
	wantLeft(t, got, 5, 3)
	u.close()
	got = g.send(t, key.get())
	refused(t, got, http.StatusBadGateway, "UPSTREAM_ERROR")
	wantLeft(t, got, 5, 2)
}

// TestBucketsAllOrNone fills one of two buckets: the refused request leaves
// the other one untouched.
func TestBucketsAllOrNone(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, limits: withLimits, global: "limit get_card 2/1d\nlimit get_card_balance 9/1d\nlimit total 4/1d"})
	key := g.newKey(nil)
	balance := func() *request { return key.request(http.MethodGet, "/api/v1/cards/c1/balance", "") }
	wantLeft(t, g.send(t, key.get()), 2, 1)
	wantLeft(t, g.send(t, key.get()), 2, 0)
	for range 10 {
		limited(t, g.send(t, key.get())) // get_card is full, total is not
	}
	wantLeft(t, g.send(t, balance()), 4, 1) // total binds: three of four are spent
	wantLeft(t, g.send(t, balance()), 4, 0)
	for range 10 {
		limited(t, g.send(t, balance())) // total is full, get_card_balance is not
	}
	g.change(key, fields{"limits": fields{"total": "100/1d"}})
	wantLeft(t, g.send(t, balance()), 9, 6)
}

// TestRetryAfter comes again exactly when it was told to.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, limits: withLimits, global: "limit get_card 2/5s burst 1"})
	key := g.newKey(nil)
	accepted(t, g.send(t, key.get()))
	for range 2 {
		got := g.send(t, key.get())
		at := time.Now() // not before the moment of the refusal
		seconds := limited(t, got)
		if seconds > 3 {
			t.Errorf("Retry-After is %d, want at most 3", seconds)
		}
		if reset := limitsOf(t, got).reset; reset < at.Unix()-1 || reset > at.Unix()+4 {
			t.Errorf("X-RateLimit-Reset is %d at %d", reset, at.Unix())
		}
		time.Sleep(time.Until(at.Add(time.Duration(seconds) * time.Second)))
		accepted(t, g.send(t, key.get()))
	}
}

// TestOverrides changes the limits of a key between two requests.
func TestOverrides(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, limits: withLimits, global: "limit default 3/1d"})
	key := g.newKey(nil)
	wantLeft(t, g.send(t, key.get()), 3, 2)
	g.change(key, fields{"limits": fields{"get_card": "10/1d"}})
	wantLeft(t, g.send(t, key.get()), 10, 8) // what was spent stays spent
	g.change(key, fields{"limits": fields{"get_card": "2/1d burst 2"}})
	limited(t, g.send(t, key.get()))
	g.change(key, fields{"limits": fields{"default": "20/1d"}})
	wantLeft(t, g.send(t, key.post()), 20, 19)
	g.change(key, fields{"limits": fields{"issue_card": fields{"limit": "50/1d", "until": moment(time.Now().Add(time.Hour))}}})
	wantLeft(t, g.send(t, key.post()), 50, 48)
	g.change(key, fields{"limits": fields{"issue_card": fields{"limit": "50/1d", "until": moment(time.Now().Add(-time.Hour))}}})
	wantLeft(t, g.send(t, key.post()), 20, 17) // the default of the key again
	for _, bad := range []any{"0/1m", "5/0s", "-1", "5", "5/1m cost 9", 7} {
		status, said := g.admin(http.MethodPatch, "/card-gateway/keys/"+key.id, "application/json", jsonText(t, fields{"limits": fields{"get_card": bad}}))
		if status != http.StatusUnprocessableEntity {
			t.Errorf("the limit %v is answered %d %s", bad, status, said)
		}
	}
	status, said := g.admin(http.MethodPatch, "/card-gateway/keys/"+key.id, "application/json", `{"limits":{"no_such_operation":"5/1m"}}`)
	if status != http.StatusUnprocessableEntity || !strings.Contains(said, "no_such_operation") {
		t.Errorf("a limit of an unknown operation is answered %d %s", status, said)
	}
}

// TestLimitModes leaves card_rate_limit out, then tries its modes.
func TestLimitModes(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr, global: "limit get_card 1/1d\nlimit total 50/1h"})
	key := g.newKey(nil)
	for range 3 {
		got := g.send(t, key.get())
		accepted(t, got)
		noLimitHeaders(t, got)
	}
	s := g.site
	s.limits = "dry_run\nietf_headers"
	g.reload(s)
	first := g.send(t, key.get())
	wantLeft(t, first, 1, 0)
	if policy := first.header.Get("Ratelimit-Policy"); !strings.Contains(policy, "q=1;w=86400") || !strings.Contains(policy, "q=50;w=3600") {
		t.Errorf("RateLimit-Policy is %q", policy)
	}
	if now := first.header.Get("Ratelimit"); !strings.Contains(now, "r=0") || !strings.Contains(now, "r=49") {
		t.Errorf("RateLimit is %q", now)
	}
	accepted(t, g.send(t, key.get())) // would have been refused
	metric := g.send(t, &request{method: "GET", target: "/metrics"}).body
	want := `card_gateway_rate_limit_decisions_total{decision="would_refuse",operation="get_card"} 1`
	if !strings.Contains(metric, want) {
		t.Errorf("the metrics do not hold %s", want)
	}
	s.limits = withLimits
	g.reload(s)
	got := g.send(t, key.get())
	limited(t, got)
	if got.header.Get("Ratelimit") != "" {
		t.Error("RateLimit is sent without ietf_headers")
	}
}

// TestLimitsInTheWrongOrder writes card_auth before card_rate_limit in a route.
func TestLimitsInTheWrongOrder(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	route := func(first, second string) string {
		return fmt.Sprintf("route {\n%s\n%s\nreverse_proxy %s\n}", first, second, u.addr)
	}
	g := startGateway(t, site{routes: route("card_auth", "card_rate_limit")})
	key := g.newKey(nil)
	got := g.send(t, key.get())
	refused(t, got, http.StatusInternalServerError, "INTERNAL_ERROR")
	u.none(t)
	g.logged("default.log", "card_rate_limit", "card_auth", `"level":"error"`)
	g.reload(site{routes: route("card_rate_limit", "card_auth")})
	got = g.send(t, key.get())
	accepted(t, got)
	limitsOf(t, got)
}
