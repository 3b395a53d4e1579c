package request

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestForwardedHost sends a Host of the client's choice: the issuer receives its
// own name, unless the configuration sets another.
func TestForwardedHost(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	for option, want := range map[string]string{
		"": u.Addr, "host issuer.example": "issuer.example", "host {client}": "evil.example",
	} {
		g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Proxy: option})
		r := g.NewKey(nil).Get()
		r.Headers = append([]string{"Host: evil.example"}, r.Headers...)
		harness.WantAccepted(t, g.Send(t, r))
		wantHeaders(t, u.One(t), map[string]string{"Host": want, "X-Forwarded-Host": "evil.example"})
	}
}

// TestForwardedHeaders has two issuers that get different headers: a header that a
// card_forward names reaches its own issuer, and not the other.
func TestForwardedHeaders(t *testing.T) {
	t.Parallel()
	u, other := harness.StartUpstream(t), harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Routes: fmt.Sprintf(`card_auth {
			pass_header X-Card-Id
		}
		@named path /api/v1/named
		card_forward @named %[1]s {
			pass_header X-Forwarded-Port Forwarded
		}
		@only path /api/v1/only
		card_forward @only %[1]s {
			headers only X-Card-Id Forwarded
		}
		reverse_proxy %[2]s`, u.Addr, other.Addr)})
	key := g.NewKey(nil)
	send := func(path string) {
		r := key.JSON("POST", path, `{}`).Add("X-Card-Id", "c1").Add("Forwarded", "for=1").Add("X-Forwarded-Port", "1").Add("Accept-Language", "de")
		harness.WantAccepted(t, g.Send(t, r.Add("Connection", "X-Forwarded-Port").Add("X-Gateway-Tenant", "evil")))
	}
	ours := map[string]string{"X-Gateway-Tenant": "acme", "X-Forwarded-Host": "gw.example", "Content-Type": "application/json", "X-Card-Id": "c1"}
	send("/api/v1/named")
	got := u.One(t)
	wantHeaders(t, got, ours)
	wantHeaders(t, got, map[string]string{"Forwarded": "for=1", "X-Forwarded-Port": "", "Accept-Language": "de"})
	send("/api/v1/only")
	got = u.One(t)
	wantHeaders(t, got, ours)
	wantHeaders(t, got, map[string]string{"Forwarded": "for=1", "X-Forwarded-Port": "", "Accept-Language": ""})
	cleanOf(t, got)
	send("/api/v1/elsewhere")
	got = other.One(t)
	wantHeaders(t, got, ours)
	wantHeaders(t, got, map[string]string{"Forwarded": "", "X-Forwarded-Port": "", "Accept-Language": "de"})
}

// TestBusyIssuer has one connection to the issuer, which is in use: the second
// request is not sent, and the client learns that it may send it again.
func TestBusyIssuer(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Proxy: "max_connections 1\ndial_timeout 100ms"})
	key := g.NewKey(nil)
	served := make(chan struct{})
	u.Replies(harness.Reply{Raw: harness.Answer(503, "theirs", "X-Gateway-Forwarded: no").Raw, Wait: served})
	w := g.Connect(t)
	w.WriteText(t, key.Get().Head())
	harness.Eventually(t, "the request was forwarded", func() bool { return len(u.Took()) == 1 })
	got := g.Send(t, key.Post())
	harness.WantRefused(t, got, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if wait, err := strconv.Atoi(got.Header.Get("Retry-After")); err != nil || wait < 1 || got.Header.Get("X-Gateway-Forwarded") != "no" {
		t.Errorf("the answer has %v", got.Header)
	}
	u.None(t)
	close(served)
	first, err := w.Receive(http.MethodGet)
	if err != nil || first.Status != 503 || first.Body != "theirs" || first.Header.Values("X-Gateway-Forwarded") != nil {
		t.Errorf("the issuer's own 503 comes back as %v with %v, %v", first, first.Header, err)
	}
}

// TestIssuerIsOut makes the checks of the only issuer fail: requests are
// answered at once and reach no issuer.
func TestIssuerIsOut(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	u.Trusts("the gateway checks its health")
	u.Does(func(r *harness.Received) harness.Reply {
		if r.Line == "GET /health HTTP/1.1" {
			return harness.Answer(500, "")
		}
		return harness.Answer(200, "{}")
	})
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Proxy: "check /health every 1s"})
	key := g.NewKey(nil)
	g.Logged("default.log", `"logger":"card_gateway.issuers"`, `"kind":"check"`)
	got := g.Send(t, key.Post())
	harness.WantRefused(t, got, http.StatusBadGateway, "UPSTREAM_ERROR")
	if got.Header.Get("Retry-After") == "" {
		t.Errorf("the answer has %v, want Retry-After", got.Header)
	}
	u.Replies(harness.Answer(200, "{}"))
	harness.Eventually(t, "the issuer is asked again", func() bool { return g.Send(t, key.Get()).Status == http.StatusOK })
	for _, r := range u.Took() {
		if strings.HasPrefix(r.Line, "POST") {
			t.Errorf("the issuer that was out received %s", r.Line)
		}
	}
}

// TestConnectionsOutliveReloads sends on one connection before and after
// configurations with the same issuer are loaded, and counts it.
func TestConnectionsOutliveReloads(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	series := `card_gateway_upstream_connections{issuer="` + u.Addr + `"}`
	for range 3 {
		harness.WantAccepted(t, g.Send(t, key.Post()))
		if open := g.Scrape(t)[series]; open != 1 {
			t.Errorf("%s is %v, want 1", series, open)
		}
		g.Site.Global += "\noperation op" + strconv.Itoa(len(g.Site.Global)) + " GET /api/v1/x cards:read"
		g.Site.Global = g.Site.Global[strings.LastIndex(g.Site.Global, "\n"):]
		g.Reload(g.Site)
	}
	var conns []int
	for _, r := range u.Took() {
		conns = append(conns, r.Conn)
	}
	if !slices.Equal(conns, []int{1, 1, 1}) {
		t.Errorf("the requests came over the connections %v, want the first one", conns)
	}
	g.Site.Proxy = "keepalive 10s"
	g.Reload(g.Site)
	harness.Eventually(t, "the connection of the former options is closed", func() bool { return g.Scrape(t)[series] == 0 })
}

// TestForwardRefusesToStart tries mistakes that are found when a configuration
// is loaded.
func TestForwardRefusesToStart(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]string{
		"pass_header X-Gateway-Tenant": "never passes",
		"host a{b}":                    "it must be a name, or {client}",
		"check health":                 "must begin with a slash",
		"tls {\nca_file /nowhere\n}":   "no such file",
	} {
		g := harness.NewGateway(t, harness.Site{Upstream: "127.0.0.1:9", Proxy: option})
		if said := g.RefusesToStart(); !strings.Contains(said, want) {
			t.Errorf("%s: %s", option, said)
		}
	}
	for issuer, want := range map[string]string{"https://issuer.example": "is not host:port", "issuer.example": "is not host:port"} {
		g := harness.NewGateway(t, harness.Site{Upstream: issuer})
		if said := g.RefusesToStart(); !strings.Contains(said, want) {
			t.Errorf("%s: %s", issuer, said)
		}
	}
}

// TestUpstreamMetrics measures every handler behind card_auth.
func TestUpstreamMetrics(t *testing.T) { harness.EachTerminal(t, testUpstreamMetrics) }

func testUpstreamMetrics(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, AnswerTimeout: "1s"})
	key, before := g.NewKey(nil), g.Scrape(t)
	done := make(chan struct{})
	defer close(done)
	want := make(harness.Samples)
	count := func(class string) {
		want[`card_gateway_upstream_responses_total{class="`+class+`",operation="get_card"}`]++
		want[`card_gateway_upstream_seconds_count{operation="get_card"}`]++
	}
	for status, class := range map[int]string{200: "2xx", 302: "3xx", 404: "4xx", 503: "5xx", 502: "5xx"} {
		u.Replies(harness.Answer(status, "{}"))
		g.Send(t, key.Get())
		count(class)
	}
	u.Replies(harness.Reply{})
	g.Send(t, key.Get())
	count("error")
	u.Replies(harness.Reply{Wait: done})
	g.Send(t, key.Get())
	count("timeout")
	g.Send(t, key.Get().Forge())
	after := g.Scrape(t)
	for series, n := range want {
		if got := after[series] - before[series]; got != n {
			t.Errorf("%s rose by %v, want %v", series, got, n)
		}
	}
}

// TestIssuerMetrics counts what each issuer answers, also where another one made its
// failure good, and how long it was out.
func TestIssuerMetrics(t *testing.T) {
	t.Parallel()
	dead, u := harness.FreeAddress(t), harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: dead + " " + u.Addr, Proxy: "policy first"})
	key, want := g.NewKey(nil), make(harness.Samples)
	for status, class := range map[int]string{200: "2xx", 302: "3xx", 401: "401", 403: "403", 404: "4xx", 429: "429", 503: "5xx"} {
		u.Replies(harness.Answer(status, "{}"))
		g.Send(t, key.Get())
		want[`card_gateway_upstream_issuer_responses_total{class="`+class+`",issuer="`+u.Addr+`"}`] = 1
	}
	want[`card_gateway_upstream_issuer_responses_total{class="error",issuer="`+dead+`"}`] = 3 // then it is out
	want[`card_gateway_upstream_issuer_seconds_count{issuer="`+u.Addr+`"}`] = 7
	want[`card_gateway_upstream_out{issuer="`+dead+`"}`] = 1
	harness.Eventually(t, "the issuer was out for a second", func() bool {
		return g.Scrape(t)[`card_gateway_upstream_out_seconds_total{issuer="`+dead+`"}`] >= 1
	})
	got := g.Scrape(t)
	for series, n := range want {
		if got[series] != n {
			t.Errorf("%s is %v, want %v", series, got[series], n)
		}
	}
	for _, name := range []string{"out", "out_seconds_total"} {
		if n := got[`card_gateway_upstream_`+name+`{issuer="`+u.Addr+`"}`]; n != 0 {
			t.Errorf("%s of the issuer that answers is %v", name, n)
		}
	}
	if n := got.Of("card_gateway_upstream_in_flight_requests").Sum(); n != 0 {
		t.Errorf("%v requests are in flight", n)
	}
	done := make(chan struct{})
	u.Replies(harness.Reply{Wait: done})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = g.Try(key.Get())
	}()
	harness.Eventually(t, "a request is in flight", func() bool {
		return g.Scrape(t)[`card_gateway_upstream_in_flight_requests{issuer="`+u.Addr+`"}`] == 1
	})
	close(done)
	<-ended
}

// TestNotForwarded checks that other refusals do not have the header: a client must
// not repeat these requests.
func TestNotForwarded(t *testing.T) {
	t.Parallel()
	g := harness.StartGateway(t, harness.Site{Upstream: harness.FreeAddress(t)})
	key := g.NewKey(nil)
	for _, r := range []*harness.Request{key.Get(), key.Get().Forge()} {
		if got := g.Send(t, r); got.Header.Values("X-Gateway-Forwarded") != nil {
			t.Errorf("%s has %v", got, got.Header)
		}
	}
}
