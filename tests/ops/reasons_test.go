package ops

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// reasonSite is a gateway in which every reason can occur. The second
// card_rate_limit, behind card_auth, is a mistake of its configuration, which the
// two matchers hide from the check of the order.
func reasonSite(upstream, terminal string) harness.Site {
	s := harness.Site{Upstream: upstream, Terminal: terminal, AnswerTimeout: "3s"}
	return harness.Site{
		Global: harness.CustomerOperations + "\nlock_after 1\nbody_budget 8MiB\nbody_share 1/8\nlimit get_card_balance 1/1d",
		Routes: harness.WithMistake("max_body 1MiB\nbody_timeout 4s\npass_header X-Test", "", s.ToIssuer()),
		Extra:  "handle /gateway/v1/* {\ncard_rate_limit\ncard_auth\ncard_self {\nrotate yes\n}\n}\n",
	}
}

// A refusalCase is one way to be refused.
type refusalCase struct {
	reason    auth.Reason
	operation string
	first     auth.Reason // the outcome of all requests but the last
	requests  []*harness.Request
	facts     []string // further texts of the log line
}

// refusalCases returns a way to be refused for each reason that one client can
// cause by its requests.
func refusalCases(g *harness.Gateway) []refusalCase {
	key := func() harness.Credentials { return g.NewKey(nil) }
	barred, disabled := g.NewKey(harness.Fields{"allowed_ips": []string{"203.0.113.7"}}), g.NewKey(harness.Fields{"disabled": true})
	expired, locked, poor := key(), key(), g.NewKey(harness.Fields{"scopes": []string{"products:read"}})
	g.Change(expired, harness.Fields{"expires_at": harness.Moment(time.Now().Add(-time.Minute))})
	balance := func(c harness.Credentials) *harness.Request { return c.Request("GET", "/api/v1/cards/c1/balance", "") }
	rotation := func(c harness.Credentials) *harness.Request { return c.Request("POST", "/gateway/v1/key/rotate", "") }
	limited, rotated, used := key(), key(), key().Get()
	hour, failed := time.Now().Add(-time.Hour), `"error":"`
	if strings.Contains(g.Site.Routes, harness.CardForward) {
		failed = `: issuer 127.0.0.1:`
	}
	no, one := auth.Accepted, func(r *harness.Request) []*harness.Request { return []*harness.Request{r} }
	return []refusalCase{
		{auth.NotFound, "other", no, one(key().Request("POST", "/v1/cards/c1/unfreeze", "{}")), []string{`"client_ip":"`}},
		{auth.BadTarget, "other", no, one(key().Request("GET", "/api/v1//cards", "")), []string{`"detail":"`}},
		{auth.MethodNotAllowed, "other", no, one(key().Request("BREW", "/api/v1/cards", "")), nil},
		{auth.MissingHeaders, "get_card", no, one(key().Get().Drop("X-Nonce").Drop("X-Body-Hash")), []string{`X-Nonce is missing`, `X-Body-Hash is missing`}},
		{auth.UnknownKey, "get_card", no, one(harness.Credentials{ID: "nobody", Secret: "x"}.Get()), nil},
		{auth.KeyDisabled, "get_card", no, one(disabled.Get()), nil},
		{auth.KeyExpired, "get_card", no, one(expired.Get()), nil},
		{auth.KeyLocked, "get_card", auth.SignatureMismatch, []*harness.Request{locked.Get().Forge(), locked.Get()}, nil},
		{auth.IPNotAllowed, "get_card", no, one(barred.Get()), []string{`"client_ip":"127.0.0.1"`}},
		{auth.TimestampOutOfWindow, "get_card", no, one(key().RequestAt(hour, "GET", "/api/v1/cards/c1", "")), []string{`"skew_seconds":36`, `"failures":0`, ` s behind our clock`}},
		{auth.TimestampOutOfWindow, "get_card", no, one(key().RequestAt(time.Now().Add(time.Hour), "GET", "/api/v1/cards/c1", "").Forge()), []string{`"failures":1`, ` s ahead of our clock`}},
		{auth.TimestampOutOfWindow, "get_card", no, one(resigned(key(), "X-Timestamp", "yesterday")), []string{`X-Timestamp is not a number of ten digits`}},
		{auth.UnsupportedMediaType, "create_customer", no, one(key().Request("POST", "/api/v1/Customers", "{}")), nil},
		{auth.BodyTooLarge, "issue_card", no, one(key().Request("POST", "/api/v1/cards", strings.Repeat("x", 1<<20+1))), nil},
		{auth.ReplayedNonce, "get_card", no, []*harness.Request{used, used}, []string{`"failures":0`}},
		{auth.BodyHashMismatch, "get_card", no, one(resigned(key(), "X-Body-Hash", harness.BodyHash("another body"))), []string{`"failures":1`}},
		{auth.SignatureMismatch, "get_card", no, one(key().Get().Forge()), []string{`"failures":1`}},
		{auth.ScopeMissing, "get_card", no, one(poor.Get()), []string{`needs the scope cards:read`}},
		{auth.RateLimited, "get_card_balance", no, []*harness.Request{balance(limited), balance(limited)}, []string{`the bucket get_card_balance is empty`}},
		{auth.InvalidBody, "create_customer", no, one(key().JSON("POST", "/api/v1/Customers", `{"type":"alien"}`)), nil},
		{auth.Conflict, "gateway_rotate", no, []*harness.Request{rotation(rotated), rotation(rotated)}, []string{`a newer secret exists`}},
		{auth.InternalError, "other", no, one(key().Request("GET", "/api/v1/misplaced", "")), []string{`"level":"error"`, "write card_rate_limit first"}},
		{auth.UpstreamError, "issue_card", no, one(key().Post().Add("X-Test", "hang up")), []string{`"level":"error"`, failed}},
		{auth.UpstreamTimeout, "issue_card", no, one(key().Post().Add("X-Test", "stall")), []string{`"level":"error"`, failed}},
	}
}

// resigned returns a request in which a header was changed before it was
// signed.
func resigned(c harness.Credentials, name, value string) *harness.Request {
	return c.Get().Set(name, value).Sign(c.Secret)
}

// keyless are the reasons of refusals before the key is known.
var keyless = []auth.Reason{auth.NotFound, auth.BadTarget, auth.MethodNotAllowed, auth.MissingHeaders, auth.UnknownKey}

// wantTold checks the two log lines of a refused request: one in the log of
// refusals, with the facts, and one in the access log.
func wantTold(g *harness.Gateway, r *harness.Request, reason auth.Reason, facts ...string) {
	g.T.Helper()
	id := `"request_id":"` + r.Value("X-Request-Id") + `"`
	line := g.Logged("default.log", `"logger":"card_gateway.refusals"`, id)
	facts = append(facts, `"reason":"`+reason.String()+`"`)
	if !slices.Contains(keyless, reason) {
		facts = append(facts, `"key_id":"`+r.Value("X-API-Key")+`","tenant":"acme"`, `"client_ip":"`)
	}
	for _, fact := range facts {
		if !strings.Contains(line, fact) {
			g.T.Errorf("the line of the refusal does not say %s: %s", fact, line)
		}
	}
	access := g.Logged("access.log", `"logger":"http.log.access`, id)
	if !strings.Contains(access, `"outcome":"`+reason.String()+`"`) {
		g.T.Errorf("the access log does not say %s: %s", reason, access)
	}
	for _, file := range []string{"default.log", "access.log"} {
		if n := strings.Count(g.ReadFile(file), id+`,"outcome"`) + strings.Count(g.ReadFile(file), `"reason":"`+reason.String()+`",`+id); n != 1 {
			g.T.Errorf("%s has %d lines of request %s", file, n, id)
		}
	}
}

// TestEveryReason causes each member of the closed set, and checks it in the
// answer, the metric, the log of refusals and the access log.
func TestEveryReason(t *testing.T) { harness.EachTerminal(t, testEveryReason) }

func testEveryReason(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	half := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat("1", 25_000)
	u.Does(func(r *harness.Received) harness.Reply {
		switch r.Value("X-Test") {
		case "hang up":
			return harness.Reply{}
		case "stall":
			return harness.Reply{Wait: done}
		case "stall half-way":
			return harness.Reply{Raw: half}
		case "hang up half-way":
			return harness.Reply{Raw: half, HangUp: true}
		}
		return harness.Answer(200, "{}", "Content-Type: application/json")
	})
	g := harness.StartGateway(t, reasonSite(u.Addr, terminal))
	seen := map[auth.Reason]bool{auth.Accepted: true}
	for number, c := range refusalCases(g) {
		before, want := g.Scrape(t), harness.Samples{harness.RequestSeries(c.operation, c.reason.String()): 1}
		for i, r := range c.requests {
			r.Set("X-Request-Id", fmt.Sprintf("case-%d-%d", number, i))
			got := g.Send(t, r)
			if i < len(c.requests)-1 {
				want[harness.RequestSeries(c.operation, c.first.String())]++
				continue
			}
			harness.WantRefused(t, got, c.reason.Status(), c.reason.Code())
			wantTold(g, r, c.reason, c.facts...)
		}
		g.WantCounted(t, before, want)
		if t.Failed() {
			t.Fatal(c.reason)
		}
		seen[c.reason] = true
	}
	refusesSlowBodies(t, g)
	noticesHangUps(t, g, u)
	losesStore(t, g)
	losesNonces(t, g)
	seen[auth.UnknownHost] = true // by TestUnknownHost
	for _, reason := range []auth.Reason{auth.MalformedRequest, auth.ReplayFloor, auth.OverBudget, auth.BodyTimeout, auth.ClientGone, auth.StoreUnavailable} {
		seen[reason] = true
	}
	for _, reason := range auth.Reasons() {
		if !seen[reason] {
			t.Errorf("nothing brings about %s: add a way to refusalCases", reason)
		}
	}
}

// refusesSlowBodies sends bodies at the same time that do not fit into the budget
// together and never end: some get over_budget, the others a timeout.
func refusesSlowBodies(t testing.TB, g *harness.Gateway) {
	t.Helper()
	before, key := g.Scrape(t), g.NewKey(nil)
	requests, wires := make([]*harness.Request, 5), make([]*harness.Wire, 5)
	for i := range requests {
		r := key.Post().Set("X-Request-Id", fmt.Sprint("slow-", i)).Set("Content-Length", fmt.Sprint(240<<10))
		requests[i], wires[i] = r, g.Connect(t)
		wires[i].WriteText(t, r.Head()+strings.Repeat("x", 200<<10))
	}
	want := make(harness.Samples)
	for i, r := range requests {
		got, err := wires[i].Receive(r.Method)
		if err != nil {
			t.Fatal(err)
		}
		reason, fact := auth.OverBudget, "body_budget"
		if got.Status == auth.BodyTimeout.Status() {
			reason, fact = auth.BodyTimeout, "within 4s"
		}
		harness.WantRefused(t, got, reason.Status(), reason.Code())
		wantTold(g, r, reason, fact)
		want[harness.RequestSeries("issue_card", reason.String())]++
	}
	if len(want) != 2 {
		t.Errorf("five bodies of 240 KiB under a share of 1 MiB were refused as %v", want)
	}
	g.WantCounted(t, before, want)
}

// noticesHangUps ends connections of clients during the body, while the
// upstream works, and during the answer. Then the upstream closes one.
func noticesHangUps(t testing.TB, g *harness.Gateway, u *harness.Upstream) {
	t.Helper()
	before, key := g.Scrape(t), g.NewKey(nil)
	begin := func(r *harness.Request, id string) (*harness.Request, *harness.Wire) {
		w := g.Connect(t)
		w.WriteText(t, r.Set("X-Request-Id", id).Head()+r.Body)
		return r, w
	}
	r, w := begin(key.Post().Set("Content-Length", "1000"), "half-a-body")
	_ = w.Close()
	wantTold(g, r, auth.MalformedRequest) // the client may still read the answer

	u.Took()
	r, w = begin(key.Post().Add("X-Test", "stall"), "no-answer-yet")
	harness.Eventually(t, "the request reached the upstream", func() bool { return len(u.Took()) == 1 })
	w.Reset()
	wantTold(g, r, auth.ClientGone)

	r, w = begin(key.Post().Add("X-Test", "stall half-way"), "half-an-answer")
	if _, err := http.ReadResponse(w.In, nil); err != nil {
		t.Fatal(err)
	}
	w.Reset()
	wantTold(g, r, auth.ClientGone)

	r, w = begin(key.Post().Add("X-Test", "hang up half-way"), "cut-off")
	if got, err := w.Receive(r.Method); err == nil {
		t.Errorf("half of an answer is passed on as %s", got)
	}
	wantTold(g, r, auth.UpstreamError)
	g.WantCounted(t, before, harness.Samples{
		harness.RequestSeries("issue_card", "malformed_request"): 1, harness.RequestSeries("issue_card", "client_gone"): 2, harness.RequestSeries("issue_card", "upstream_error"): 1,
	})
}
