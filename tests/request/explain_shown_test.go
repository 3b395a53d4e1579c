package request

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

func forged(c harness.Credentials) *harness.Request { return c.Get().Forge() }

func forgotten(c harness.Credentials) *harness.Request { return c.Get().Drop("X-Nonce") }

// TestAnswersExplainThemselves checks the explanation in the answer to a test
// key, and who else gets one.
func TestAnswersExplainThemselves(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "lock_after 10000"})
	m := &mistaken{t: t, g: g, pace: time.NewTicker(time.Second / 4), canaries: harness.Canaries{}}
	defer m.pace.Stop()

	test := g.NewKey(harness.Fields{"mode": "test"})
	changed := func(c harness.Credentials) *harness.Request {
		r := c.Post()
		r.Body += " "
		return r
	}
	r, answer, _ := m.try(test, changed)
	e := readExplained(t, answer.Body)
	if !strings.HasPrefix(e.Error.Text, "POST\n/api/v1/cards\n"+r.Value("X-Timestamp")+"\n") || e.Error.Bytes == nil || *e.Error.Bytes != len(r.Body) || *e.Error.Hash != harness.BodyHash(r.Body) {
		t.Errorf("the answer is %s", answer)
	}
	if _, answer, _ = m.try(test, forged); readExplained(t, answer.Body).Error.Text == "" {
		t.Errorf("a wrong signature is answered %s", answer)
	}
	g.WantFailures(t, test, m.sent)

	// A live key gets one until its debug_until, and the audit log has a line
	// for each.
	live := g.NewKey(nil)
	_, answer, _ = m.try(live, changed)
	harness.WantUnauthorized(t, answer, harness.BodyMismatch)
	g.Change(live, harness.Fields{"debug_until": harness.Moment(time.Now().Add(time.Hour))})
	for _, make := range []func(harness.Credentials) *harness.Request{changed, forgotten} {
		r, answer, _ = m.try(live, make)
		if e := readExplained(t, answer.Body); len(e.Error.Details) == 0 {
			t.Errorf("a live key that is debugged is answered %s", answer)
		}
		g.Logged("default.log", `"logger":"card_gateway.audit"`, `"action":"explain"`, `"key_id":"`+live.ID+`"`, `"request_id":"`+r.Value("X-Request-Id")+`"`)
	}
	g.Change(live, harness.Fields{"debug_until": harness.Moment(time.Now().Add(-time.Second))})
	_, answer, _ = m.try(live, changed)
	harness.WantUnauthorized(t, answer, harness.BodyMismatch)
	status, said := g.Admin(http.MethodPatch, "/card-gateway/keys/"+live.ID, "application/json", `{"debug_until":"`+harness.Moment(time.Now().Add(25*time.Hour))+`"}`)
	if status != http.StatusUnprocessableEntity {
		t.Errorf("debug_until in 25 hours: %d %s", status, said)
	}

	// The record of the gateway is compared with the request that the client
	// has captured.
	r, _, _ = m.try(live, func(c harness.Credentials) *harness.Request {
		r := c.Request("GET", "/api/v1/transactions?a=2", "")
		r.Target = "/api/v1/transactions?a=1"
		return r
	})
	captured := *r
	captured.Target = "/api/v1/transactions?a=2"
	ask := []string{"--request-id", r.Value("X-Request-Id"), "--address", "unix/" + g.Path("admin.sock")}
	said = cardExplain(t, live, curlLine(&captured), true, append(ask, "-")...)
	if !strings.Contains(said, "changed_on_the_way: the gateway received another path than was captured") || !strings.Contains(said, "^ byte 28, in the path") {
		t.Errorf("card-explain says\n%s", said)
	}
	if said = cardExplain(t, live, "", true, ask...); !strings.Contains(said, "signature_unexplained") || !strings.Contains(said, live.ID) {
		t.Errorf("card-explain says without a capture\n%s", said)
	}

	// generic_messages shows nothing, and the operator still sees it.
	s := g.Site
	s.Auth = "generic_messages"
	g.Reload(s)
	_, answer, detail := m.try(test, changed)
	if want := `{"success":false,"error":{"code":"UNAUTHORIZED","message":"Authentication failed"}}`; answer.Body != want || detail == "" {
		t.Errorf("with generic_messages: %s, and the operator sees %q", answer, detail)
	}
}

// TestRefusalsSayWhatTheyKnow: error.details of 403, 404, 415 and 429 has the
// facts that the gateway knows.
func TestRefusalsSayWhatTheyKnow(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Global: harness.CustomerOperations + "\nlimit get_card 1/1d",
		Routes: "card_rate_limit\ncard_auth\ncard_translate\ncard_forward " + u.Addr,
	})
	key, poor := g.NewKey(nil), g.NewKey(harness.Fields{"scopes": []string{"cards:read"}})
	harness.WantAccepted(t, g.Send(t, key.Get()))
	typed := func(name, value string) *harness.Request {
		return key.JSON("POST", "/api/v1/Customers", "{}").Set(name, value)
	}
	for name, c := range map[string]struct {
		r       *harness.Request
		status  int
		code    string
		finding string
		says    string
	}{
		"scope":            {poor.Post(), http.StatusForbidden, "FORBIDDEN", "scope", "issue_card needs the scope cards:write"},
		"path":             {poor.Request("GET", "/api/v1/card", ""), http.StatusForbidden, "FORBIDDEN", "no_operation", "No operation of this gateway has this method and path"},
		"limit":            {key.Get(), http.StatusTooManyRequests, "RATE_LIMITED", "limit", "The limit get_card of this key is used up"},
		"encoding":         {typed("Content-Encoding", "gzip"), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "content_encoding", "Content-Encoding"},
		"type":             {typed("Content-Type", "text/plain"), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "content_type", "application/json"},
		"charset":          {typed("Content-Type", "application/json; charset=latin1"), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "charset", "UTF-8"},
		"beside the paths": {&harness.Request{Method: "GET", Target: "/v1/cards"}, http.StatusNotFound, "NOT_FOUND", "base_path", "/api/v1/"},
	} {
		got := g.Send(t, c.r)
		harness.WantRefused(t, got, c.status, c.code)
		e := readExplained(t, got.Body)
		if e.findings() != c.finding || !strings.Contains(e.Error.Details[0].Message, c.says) || got.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	// A stranger learns nothing of scopes.
	harness.WantUnauthorized(t, g.Send(t, poor.Post().Forge()), harness.WrongSignature)
}

// TestDocURL: with docs_url every refusal names the page of its message, and every
// finding its own.
func TestDocURL(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "docs_url https://docs.example/errors"})
	key, test := g.NewKey(nil), g.NewKey(harness.Fields{"mode": "test"})
	for want, r := range map[string]*harness.Request{
		"#signature-mismatch": key.Get().Forge(), "#bad_request": key.Request("GET", "/api/v1//x", ""), "#not_found": {Method: "GET", Target: "/"},
		"#base_path": {Method: "GET", Target: "/"}, "#secret_empty": test.Get().Sign(""), "#body-hash-mismatch": test.Post().Set("X-Body-Hash", harness.BodyHash("{}")).Sign(test.Secret),
	} {
		if got := g.Send(t, r); !strings.Contains(got.Body, `"doc_url":"https://docs.example/errors`+want+`"`) {
			t.Errorf("%s: %s", want, got)
		}
	}
}

// TestTestRunIsExplained: the 20 mistakes that a test run makes at once are all explained,
// while strangers send unsigned and forged requests, and name the run's own key.
func TestTestRunIsExplained(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	for name, c := range map[string]struct{ addresses, requests int }{
		"one address": {1, 200}, "30 addresses at once": {30, 60}, "30 addresses that go on": {30, 900},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "lock_after 10000"})
			test := g.NewKey(harness.Fields{"mode": "test"})
			for i := range c.requests {
				r := test.Get().Forge()
				switch i % 4 {
				case 0:
					r = forgotten(test)
				case 1: // an id that looks like one of a test key
					r = forgotten(test).Set("X-API-Key", fmt.Sprint("ck_test_", i))
				}
				if got := g.Send(t, r.From(fmt.Sprintf("127.0.0.%d", 2+i%c.addresses))); got.Status != http.StatusUnauthorized {
					t.Fatal(got)
				}
			}
			for _, address := range []string{"127.0.1.1", "127.0.1.2"} { // one may share its slot with a stranger
				explained := 0
				for i := range 20 {
					r := test.Get().Forge()
					if i%10 == 0 {
						r = forgotten(test)
					}
					if answer := g.Send(t, r.From(address)); len(readExplained(t, answer.Body).Error.Details) > 0 {
						explained++
					}
				}
				if explained == 20 {
					return
				}
				t.Logf("from %s %d of 20 mistakes are explained", address, explained)
			}
			t.Error("no test run is explained")
		})
	}
}
