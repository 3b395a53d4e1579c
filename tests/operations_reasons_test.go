package tests

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// reasonSite is a gateway in which every reason can come about. The second
// card_rate_limit, behind card_auth, is a mistake of its configuration.
func reasonSite(upstream string) site {
	return site{
		global: customerOperations + "\nlock_after 1\nbody_budget 1MiB\nlimit get_card_balance 1/1d",
		routes: `route {
			card_rate_limit
			card_auth {
				max_body 1MiB
				body_timeout 2s
			}
			@misplaced path /api/v1/misplaced
			card_rate_limit @misplaced
			card_translate
			reverse_proxy ` + upstream + ` {
				transport http {
					response_header_timeout 1s
				}
			}
		}`,
	}
}

// A refusalCase is one way to be refused.
type refusalCase struct {
	reason    auth.Reason
	operation string
	first     auth.Reason // the outcome of all requests but the last
	requests  []*request
	facts     []string // what the log line says besides, as it is written
}

// refusalCases returns a way to be refused for each reason that one client can
// bring about by what it sends.
func refusalCases(g *gateway) []refusalCase {
	key := func() credentials { return g.newKey(nil) }
	barred, disabled := g.newKey(fields{"allowed_ips": []string{"203.0.113.7"}}), g.newKey(fields{"disabled": true})
	expired, locked, poor := key(), key(), g.newKey(fields{"scopes": []string{"products:read"}})
	g.change(expired, fields{"expires_at": moment(time.Now().Add(-time.Minute))})
	balance := func(c credentials) *request { return c.request("GET", "/api/v1/cards/c1/balance", "") }
	limited, used := key(), key().get()
	hour := time.Now().Add(-time.Hour)
	no, one := auth.Accepted, func(r *request) []*request { return []*request{r} }
	return []refusalCase{
		{auth.NotFound, "other", no, one(key().request("POST", "/v1/cards/c1/unfreeze", "{}")), []string{`"client_ip":"`}},
		{auth.BadTarget, "other", no, one(key().request("GET", "/api/v1//cards", "")), []string{`"detail":"`}},
		{auth.MethodNotAllowed, "other", no, one(key().request("BREW", "/api/v1/cards", "")), nil},
		{auth.MissingHeaders, "get_card", no, one(key().get().drop("X-Nonce").drop("X-Body-Hash")), []string{`X-Nonce is missing`, `X-Body-Hash is missing`}},
		{auth.UnknownKey, "get_card", no, one(credentials{"nobody", "x"}.get()), nil},
		{auth.KeyDisabled, "get_card", no, one(disabled.get()), nil},
		{auth.KeyExpired, "get_card", no, one(expired.get()), nil},
		{auth.KeyLocked, "get_card", auth.SignatureMismatch, []*request{locked.get().forge(), locked.get()}, nil},
		{auth.IPNotAllowed, "get_card", no, one(barred.get()), []string{`"client_ip":"127.0.0.1"`}},
		{auth.TimestampOutOfWindow, "get_card", no, one(key().requestAt(hour, "GET", "/api/v1/cards/c1", "")), []string{`"skew_seconds":36`, `"failures":0`, ` s behind our clock`}},
		{auth.TimestampOutOfWindow, "get_card", no, one(key().requestAt(time.Now().Add(time.Hour), "GET", "/api/v1/cards/c1", "").forge()), []string{`"failures":1`, ` s ahead of our clock`}},
		{auth.TimestampOutOfWindow, "get_card", no, one(resigned(key(), "X-Timestamp", "yesterday")), []string{`X-Timestamp is not a number of ten digits`}},
		{auth.UnsupportedMediaType, "create_customer", no, one(key().request("POST", "/api/v1/Customers", "{}")), nil},
		{auth.BodyTooLarge, "issue_card", no, one(key().request("POST", "/api/v1/cards", strings.Repeat("x", 1<<20+1))), nil},
		{auth.ReplayedNonce, "get_card", no, []*request{used, used}, []string{`"failures":0`}},
		{auth.BodyHashMismatch, "get_card", no, one(resigned(key(), "X-Body-Hash", bodyHash("another body"))), []string{`"failures":1`}},
		{auth.SignatureMismatch, "get_card", no, one(key().get().forge()), []string{`"failures":1`}},
		{auth.ScopeMissing, "get_card", no, one(poor.get()), []string{`needs the scope cards:read`}},
		{auth.RateLimited, "get_card_balance", no, []*request{balance(limited), balance(limited)}, []string{`the bucket get_card_balance is empty`}},
		{auth.InvalidBody, "create_customer", no, one(key().json("POST", "/api/v1/Customers", `{"type":"alien"}`)), nil},
		{auth.InternalError, "other", no, one(key().request("GET", "/api/v1/misplaced", "")), []string{`"level":"error"`, "write card_rate_limit first"}},
		{auth.UpstreamError, "issue_card", no, one(key().post().add("X-Test", "hang up")), []string{`"level":"error"`, `"error":"`}},
		{auth.UpstreamTimeout, "issue_card", no, one(key().post().add("X-Test", "stall")), []string{`"level":"error"`, `"error":"`}},
	}
}

// resigned returns a request in which a header was changed before it was
// signed.
func resigned(c credentials, name, value string) *request {
	return c.get().set(name, value).sign(c.secret)
}

// keyless are the reasons that are found before a key is.
var keyless = []auth.Reason{auth.NotFound, auth.BadTarget, auth.MethodNotAllowed, auth.MissingHeaders, auth.UnknownKey}

// wantTold checks what operators see of a refused request: one line of the log
// of refusals with the facts, and one line of the access log.
func (g *gateway) wantTold(t testing.TB, r *request, reason auth.Reason, facts ...string) {
	t.Helper()
	id := `"request_id":"` + r.value("X-Request-Id") + `"`
	line := g.logged("default.log", `"logger":"card_gateway.refusals"`, id)
	facts = append(facts, `"reason":"`+reason.String()+`"`)
	if !slices.Contains(keyless, reason) {
		facts = append(facts, `"key_id":"`+r.value("X-API-Key")+`","tenant":"acme"`, `"client_ip":"`)
	}
	for _, fact := range facts {
		if !strings.Contains(line, fact) {
			t.Errorf("the line of the refusal does not say %s: %s", fact, line)
		}
	}
	access := g.logged("access.log", `"logger":"http.log.access`, id)
	if !strings.Contains(access, `"outcome":"`+reason.String()+`"`) {
		t.Errorf("the access log does not say %s: %s", reason, access)
	}
	for _, file := range []string{"default.log", "access.log"} {
		if n := strings.Count(g.read(file), id+`,"outcome"`) + strings.Count(g.read(file), `"reason":"`+reason.String()+`",`+id); n != 1 {
			t.Errorf("%s has %d lines of request %s", file, n, id)
		}
	}
}

// TestEveryReason brings about each member of the closed set, and looks for it
// in the answer, the metric, the log of refusals and the access log.
func TestEveryReason(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	half := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat("1", 25_000)
	u.does(func(r *received) reply {
		switch r.value("X-Test") {
		case "hang up":
			return reply{}
		case "stall":
			return reply{wait: done}
		case "stall half-way":
			return reply{raw: half}
		case "hang up half-way":
			return reply{raw: half, hangUp: true}
		}
		return answer(200, "{}", "Content-Type: application/json")
	})
	g := startGateway(t, reasonSite(u.addr))
	seen := map[auth.Reason]bool{auth.Accepted: true}
	for number, c := range refusalCases(g) {
		before, want := g.scrape(t), samples{requestSeries(c.operation, c.reason.String()): 1}
		for i, r := range c.requests {
			r.set("X-Request-Id", fmt.Sprintf("case-%d-%d", number, i))
			got := g.send(t, r)
			if i < len(c.requests)-1 {
				want[requestSeries(c.operation, c.first.String())]++
				continue
			}
			refused(t, got, c.reason.Status(), c.reason.Code())
			g.wantTold(t, r, c.reason, c.facts...)
		}
		g.wantCounted(t, before, want)
		if t.Failed() {
			t.Fatal(c.reason)
		}
		seen[c.reason] = true
	}
	g.refusesSlowBodies(t)
	g.noticesHangUps(t, u)
	g.losesStore(t)
	seen[auth.UnknownHost] = true // by TestUnknownHost
	for _, reason := range []auth.Reason{auth.OverBudget, auth.BodyTimeout, auth.ClientGone, auth.MalformedRequest, auth.StoreUnavailable} {
		seen[reason] = true
	}
	for _, reason := range auth.Reasons() {
		if !seen[reason] {
			t.Errorf("nothing brings about %s: add a way to refusalCases", reason)
		}
	}
}

// refusesSlowBodies sends bodies at once that have no room together and never
// end: some find the budget used up, the others are not waited for.
func (g *gateway) refusesSlowBodies(t testing.TB) {
	t.Helper()
	before, key := g.scrape(t), g.newKey(nil)
	requests, wires := make([]*request, 5), make([]*wire, 5)
	for i := range requests {
		r := key.post().set("X-Request-Id", fmt.Sprint("slow-", i)).set("Content-Length", fmt.Sprint(240<<10))
		requests[i], wires[i] = r, g.connect(t)
		wires[i].write(t, r.head()+strings.Repeat("x", 200<<10))
	}
	want := make(samples)
	for i, r := range requests {
		got, err := wires[i].receive(r.method)
		if err != nil {
			t.Fatal(err)
		}
		reason, fact := auth.OverBudget, "body_budget"
		if got.status == auth.BodyTimeout.Status() {
			reason, fact = auth.BodyTimeout, "within 2s"
		}
		refused(t, got, reason.Status(), reason.Code())
		g.wantTold(t, r, reason, fact)
		want[requestSeries("issue_card", reason.String())]++
	}
	if len(want) != 2 {
		t.Errorf("five bodies of 240 KiB under a budget of 1 MiB were refused as %v", want)
	}
	g.wantCounted(t, before, want)
}

// noticesHangUps lets clients go in the middle of their body, while the
// upstream thinks and in the middle of the answer, and then the upstream.
func (g *gateway) noticesHangUps(t testing.TB, u *upstream) {
	t.Helper()
	before, key := g.scrape(t), g.newKey(nil)
	begin := func(r *request, id string) (*request, *wire) {
		w := g.connect(t)
		w.write(t, r.set("X-Request-Id", id).head()+r.body)
		return r, w
	}
	r, w := begin(key.post().set("Content-Length", "1000"), "half-a-body")
	_ = w.Close()
	g.wantTold(t, r, auth.MalformedRequest, "the body ended before")

	u.took()
	r, w = begin(key.post().add("X-Test", "stall"), "no-answer-yet")
	eventually(t, "the request reached the upstream", func() bool { return len(u.took()) == 1 })
	_ = w.Close()
	g.wantTold(t, r, auth.ClientGone)

	r, w = begin(key.post().add("X-Test", "stall half-way"), "half-an-answer")
	if _, err := http.ReadResponse(w.in, nil); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	g.wantTold(t, r, auth.ClientGone)

	r, w = begin(key.post().add("X-Test", "hang up half-way"), "cut-off")
	if got, err := w.receive(r.method); err == nil {
		t.Errorf("half of an answer is passed on as %s", got)
	}
	g.wantTold(t, r, auth.UpstreamError)
	g.wantCounted(t, before, samples{
		requestSeries("issue_card", "malformed_request"): 1, requestSeries("issue_card", "client_gone"): 2,
		requestSeries("issue_card", "upstream_error"): 1,
	})
}
