package request

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestLimitModes leaves card_rate_limit out, then tries its modes.
func TestLimitModes(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	for range 3 {
		got := g.Send(t, key.Get())
		harness.WantAccepted(t, got)
		noLimitHeaders(t, got)
	}
	s := g.Site
	s.Global = "limit get_card 1/1d\nlimit total 50/1h"
	s.Limits = "dry_run\nietf_headers"
	g.Reload(s)
	first := g.Send(t, key.Get())
	wantLeft(t, first, 1, 0)
	if policy := first.Header.Get("Ratelimit-Policy"); !strings.Contains(policy, "q=1;w=86400") || !strings.Contains(policy, "q=50;w=3600") {
		t.Errorf("RateLimit-Policy is %q", policy)
	}
	if now := first.Header.Get("Ratelimit"); !strings.Contains(now, "r=0") || !strings.Contains(now, "r=49") {
		t.Errorf("RateLimit is %q", now)
	}
	harness.WantAccepted(t, g.Send(t, key.Get())) // without the mode it would be refused
	metric := g.Send(t, &harness.Request{Method: "GET", Target: "/metrics"}).Body
	want := `card_gateway_rate_limit_decisions_total{decision="would_refuse",operation="get_card"} 1`
	if !strings.Contains(metric, want) {
		t.Errorf("the metrics do not hold %s", want)
	}
	s.Limits = harness.WithLimits
	g.Reload(s)
	got := g.Send(t, key.Get())
	limited(t, got)
	if got.Header.Get("Ratelimit") != "" {
		t.Error("RateLimit is sent without ietf_headers")
	}
}

// TestLimitsInTheWrongOrder writes card_auth before card_rate_limit in a route. Their
// matchers could keep their requests apart, so the configuration is not refused.
func TestLimitsInTheWrongOrder(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	route := func(handlers string) string {
		return fmt.Sprintf("@get method GET\n@post method POST\n@judged header X-Gateway-Key-Id *\nroute {\n%s\nreverse_proxy @get %s\n}", handlers, u.Addr)
	}
	g := harness.StartGateway(t, harness.Site{Routes: route("card_auth @get\ncard_rate_limit @judged\ncard_auth @post")})
	key := g.NewKey(nil)
	got := g.Send(t, key.Get())
	harness.WantRefused(t, got, http.StatusInternalServerError, "INTERNAL_ERROR")
	u.None(t)
	g.Logged("default.log", "card_rate_limit", "card_auth", `"level":"error"`)
	g.Reload(harness.Site{Routes: route("card_rate_limit\ncard_auth")})
	got = g.Send(t, key.Get())
	harness.WantAccepted(t, got)
	limitsOf(t, got)
}
