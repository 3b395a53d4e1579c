package request

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// fate returns what a refusal says of its request: accepted, and whether it was
// forwarded, as "true false"; "-" where it says nothing.
func fate(t testing.TB, r *harness.Response) string {
	t.Helper()
	var body struct {
		Error map[string]any `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	said := [2]string{"-", "-"}
	for i, name := range []string{"accepted", "forwarded"} {
		switch value, found := body.Error[name]; {
		case value == true:
			said[i] = "true"
		case value == false:
			said[i] = "false"
		case found:
			t.Errorf("error.%s is %v", name, value)
		}
	}
	return said[0] + " " + said[1]
}

// TestFateOfARefusedRequest: every answer to a correctly signed request is signed, and
// that of the gateway itself tells whether the request has spent its nonce, and whether
// the issuer may have seen it. The published bodies of 401 say nothing more than before.
func TestFateOfARefusedRequest(t *testing.T) { harness.EachTerminal(t, testFate) }

func testFate(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	global := harness.CustomerOperations + "\nsign_responses\nlimit list_transactions 1/1d"
	site := harness.Site{Upstream: u.Addr, Terminal: terminal, Global: global, Extra: selfHandlers("", "")}
	site.Routes = "card_rate_limit\ncard_auth {\nmax_body 1KiB\n}\ncard_translate\n" + site.ToIssuer()
	g := harness.StartGateway(t, site)
	key := g.NewKey(harness.Fields{"scopes": []string{"cards:*", "transactions:read", "customers:write"}, "customer_variant": "B"})
	elsewhere := g.NewKey(harness.Fields{"allowed_ips": []string{"192.0.2.1"}})
	disabled := g.NewKey(nil)
	g.Do(disabled, "disable")
	harness.WantAccepted(t, g.Send(t, key.Request("GET", "/api/v1/transactions", "")))
	once := key.Get()
	harness.WantAccepted(t, g.Send(t, once))
	for name, c := range map[string]struct {
		key     harness.Credentials
		request *harness.Request
		reply   harness.Reply
		status  int
		fate    string
	}{
		"repeated":              {key, once, harness.Reply{}, 401, "- -"},
		"stamped long ago":      {key, key.RequestAt(time.Now().Add(-time.Hour), "GET", "/api/v1/cards/c1", ""), harness.Reply{}, 401, "- -"},
		"from elsewhere":        {elsewhere, elsewhere.Post(), harness.Reply{}, 401, "- -"},
		"of a disabled key":     {disabled, disabled.Post(), harness.Reply{}, 401, "- -"},
		"scope":                 {key, key.Request("GET", "/api/v1/products", ""), harness.Reply{}, 403, "false -"},
		"too large":             {key, key.Request("POST", "/api/v1/cards", strings.Repeat("x", 2<<10)), harness.Reply{}, 413, "false -"},
		"limit":                 {key, key.Request("GET", "/api/v1/transactions", ""), harness.Reply{}, 429, "false -"},
		"not valid":             {key, key.Request("POST", "/api/v1/customers", `{"firstName":1}`).Add("Content-Type", "application/json"), harness.Reply{}, 422, "true false"},
		"not to be rotated":     {key, key.Request("POST", "/gateway/v1/key/rotate", ""), harness.Reply{}, 404, "true false"},
		"no answer":             {key, key.Post(), harness.Reply{HangUp: true}, 502, "true true"},
		"no answer of use":      {key, key.Post(), harness.Reply{Raw: "no HTTP\r\n\r\n", HangUp: true}, 502, "true true"},
		"no answer, translated": {key, key.Request("GET", "/api/v1/customers", ""), harness.Reply{HangUp: true}, 403, "false -"},
	} {
		u.Replies(c.reply)
		answer := g.Send(t, c.request)
		if err := answer.SignedFor(c.request, c.key.Secret); answer.Status != c.status || fate(t, answer) != c.fate || err != nil {
			t.Errorf("%s: %s, %s, %v; want a signed %d, %s", name, answer, fate(t, answer), err, c.status, c.fate)
		}
		if c.status == http.StatusUnauthorized {
			harness.WantRefused(t, answer, http.StatusUnauthorized, "UNAUTHORIZED")
		}
	}
	u.Close()
	lost := key.Post()
	answer := g.Send(t, lost)
	if err := answer.SignedFor(lost, key.Secret); answer.Status != http.StatusBadGateway || fate(t, answer) != "true false" || err != nil {
		t.Errorf("no connection to the issuer: %s, %v; want a signed 502, accepted and not forwarded", answer, err)
	}
	before := g.Scrape(t)
	harness.WantUnauthorized(t, g.Send(t, lost), harness.Replayed)
	harness.WantUnauthorized(t, g.Send(t, resigned(lost)), harness.Replayed)
	if n := g.Scrape(t).Since(before)["card_gateway_repeated_requests_total"]; n != 1 {
		t.Errorf("%v repeated requests were counted, want the one with a right signature", n)
	}
}

// TestFateIsNotKnownWithoutTheStore: a settle without an answer may have spent the nonce.
func TestFateIsNotKnownWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t)
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: r.Patient(), Global: "sign_responses"})
	key := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, key.Post()))
	r.Kill()
	post := key.Post()
	answer := g.Send(t, post)
	if err := answer.SignedFor(post, key.Secret); answer.Status != http.StatusServiceUnavailable || fate(t, answer) != "- -" || err != nil {
		t.Errorf("%s, %s, %v; want a signed 503 that does not say whether the request was accepted", answer, fate(t, answer), err)
	}
}

// TestClosedNonce: whoever does not know what became of a call closes its nonce. Either
// the call was taken before, or it never is.
func TestClosedNonce(t *testing.T) { eachStore(t, testClosedNonce) }

func testClosedNonce(t *testing.T, store string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: store, Limits: harness.WithLimits, Global: "sign_responses\nlimit gateway_close 3/1d", Extra: selfHandlers("", "")})
	key := g.NewKey(nil)
	closing := func(call *harness.Request) *harness.Request {
		return key.Request("POST", "/gateway/v1/nonce/close", "").Set("X-Nonce", call.Value("X-Nonce")).Sign(key.Secret)
	}
	lost, taken := key.Post(), key.Post()
	first := closing(lost)
	answer := g.Send(t, first)
	var said struct {
		Nonce  string
		Closed bool
	}
	ownAnswer(t, answer, &said)
	if err := answer.SignedFor(first, key.Secret); err != nil || said.Nonce != lost.Value("X-Nonce") || !said.Closed {
		t.Errorf("%s, %v; want a signed answer with the nonce", answer, err)
	}
	harness.WantAccepted(t, g.Send(t, taken))
	for name, r := range map[string]*harness.Request{"the call after its close": lost, "the close again": first, "a close after the call": closing(taken)} {
		answer := g.Send(t, r)
		harness.WantUnauthorized(t, answer, harness.Replayed)
		if err := answer.SignedFor(r, key.Secret); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if took := u.Took(); len(took) != 1 {
		t.Errorf("the issuer has seen %d requests, want the one call", len(took))
	}
	ownAnswer(t, g.Send(t, closing(key.Post())), &said)
	ownAnswer(t, g.Send(t, closing(key.Post())), &said)
	fourth := key.Post()
	if answer := g.Send(t, closing(fourth)); answer.Status != http.StatusTooManyRequests || fate(t, answer) != "false -" {
		t.Errorf("the fourth close: %s, want 429", answer)
	}
	harness.WantAccepted(t, g.Send(t, fourth)) // a refused close decides nothing
}
