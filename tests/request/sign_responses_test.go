package request

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestSignedAnswers checks which answers are signed, each by a second implementation.
func TestSignedAnswers(t *testing.T) { harness.EachTerminal(t, testSignedAnswers) }

func testSignedAnswers(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal, Limits: harness.WithLimits, Global: "sign_responses\nlimit get_card 6/1d\nlimit list_transactions 1/1d"})
	key := g.NewKey(harness.Fields{"scopes": []string{"cards:*", "transactions:read"}})
	large := strings.Repeat("0123456789abcdef", 300<<10/16)
	chunks := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(large) + chunk("the end") + "0\r\n\r\n"
	for name, c := range map[string]struct {
		request *harness.Request
		reply   harness.Reply
		status  int
	}{
		"small":               {key.Post(), harness.Answer(201, `{"ok":true}`), 201},
		"forged by an issuer": {key.Post(), harness.Answer(201, "x", "X-Response-Signature: evil", "x-response-timestamp: 1", "X-Response-Body-Hash: y"), 201},
		"empty":               {key.Post(), harness.Answer(200, ""), 200},
		"large":               {key.Post(), harness.Answer(200, large), 200},
		"chunked":             {key.Post(), harness.Reply{Raw: chunks}, 200},
		"no content":          {key.Request("DELETE", "/api/v1/cards/c1/x", ""), harness.Reply{Raw: "HTTP/1.1 204 No Content\r\n\r\n"}, 403},
		"HEAD":                {key.Request("HEAD", "/api/v1/cards/c1", ""), harness.Reply{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"}, 200},
		"204":                 {key.Post(), harness.Reply{Raw: "HTTP/1.1 204 No Content\r\n\r\n"}, 204},
		"error of the issuer": {key.Get(), harness.Answer(500, `{"error":1}`), 500},
		"no issuer":           {key.Post(), harness.Reply{}, 502},
		"cut off":             {key.Post(), harness.Reply{Raw: "HTTP/1.1 200 OK\r\nX-Of-Issuer: 1\r\nContent-Length: 9\r\n\r\nhalf", HangUp: true}, 502},
		"cut off, chunked":    {key.Post(), harness.Reply{Raw: strings.TrimSuffix(chunks, "0\r\n\r\n"), HangUp: true}, 502},
		"scope":               {key.Request("GET", "/api/v1/products", ""), harness.Answer(200, ""), 403},
	} {
		u.Replies(c.reply)
		answer := g.Send(t, c.request)
		if answer.Status != c.status {
			t.Errorf("%s: %.200v, want %d", name, answer, c.status)
		}
		if err := answer.SignedFor(c.request, key.Secret); err != nil {
			t.Errorf("%s: %v in %v", name, err, answer.Header)
		}
		if c.status == 502 && (answer.Header.Get("X-Of-Issuer") != "" || !strings.Contains(answer.Body, "UPSTREAM_ERROR")) {
			t.Errorf("%s: %.200v is no refusal of the gateway", name, answer)
		}
		if c.request.Method != "HEAD" && c.status != 204 && answer.Header.Get("Content-Length") != fmt.Sprint(len(answer.Body)) {
			t.Errorf("%s: Content-Length %s for %d bytes", name, answer.Header.Get("Content-Length"), len(answer.Body))
		}
	}
	u.Replies(harness.Answer(200, `{"ok":true}`))
	for _, status := range []int{200, 429} {
		r := key.Request("GET", "/api/v1/transactions", "")
		answer := g.Send(t, r)
		if err := answer.SignedFor(r, key.Secret); answer.Status != status || err != nil {
			t.Errorf("%v, want %d: %v", answer, status, err)
		}
	}
	once := key.Post()
	harness.WantAccepted(t, g.Send(t, once))
	for name, r := range map[string]*harness.Request{
		"forged": key.Post().Forge(), "replayed and forged": resigned(once), "no headers": {Method: "GET", Target: "/api/v1/cards"},
		"unknown key":  harness.Credentials{ID: "ck_live_unknown", Secret: key.Secret}.Post(),
		"another body": {Method: "POST", Target: "/api/v1/cards", Headers: key.Post().Headers, Body: "other"},
		"target":       key.Request("GET", "/api/v1/../x", ""),
		"other method": key.Request("OPTIONS", "/api/v1/cards", ""),
	} {
		if answer := g.Send(t, r); answer.Status < 400 || answer.Unsigned() != nil {
			t.Errorf("%s: %v, %v", name, answer, answer.Unsigned())
		}
	}
}

// resigned returns the request with the same nonce and a wrong signature.
func resigned(r *harness.Request) *harness.Request {
	return (&harness.Request{Method: r.Method, Target: r.Target, Headers: slices.Clone(r.Headers), Body: r.Body}).Forge()
}

// TestSignedTranslationIsHeldOnce asks for customers whose answer fits three times into
// the memory of one key, as received, in one piece and translated, and not a fourth
// time to be signed.
func TestSignedTranslationIsHeldOnce(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	site := harness.Site{Upstream: u.Addr, Global: harness.CustomerOperations + "\nsign_responses\nanswer_budget 8MiB"}
	site.Routes = "card_rate_limit\ncard_auth\ncard_translate\n" + site.ToIssuer()
	g := harness.StartGateway(t, site)
	key := g.NewKey(harness.Fields{"customer_variant": "B"})
	customer := `{"first_name":"Z","metadata":"` + strings.Repeat("0123456789abcdef", 600<<10/16) + `"}`
	u.Replies(harness.Answer(200, `{"data":[`+customer+`]}`, "Content-Type: application/json"))
	r := key.Request("GET", "/api/v1/customers", "")
	answer := g.Send(t, r)
	if err := answer.SignedFor(r, key.Secret); answer.Status != 200 || err != nil || !strings.Contains(answer.Body, `"firstName":"Z"`) {
		t.Errorf("%.200v, %v", answer, err)
	}
}

// TestWrongVariantIsSigned: the sender of a wrong X-Card-Variant is proved, so the 400
// is signed, unlike one that is given before.
func TestWrongVariantIsSigned(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	site := harness.Site{Upstream: u.Addr}
	g := harness.StartGateway(t, harness.Site{Global: "sign_responses", Routes: "card_auth\ncard_translate\n" + site.ToIssuer()})
	key := g.NewKey(nil)
	wrong := key.Get().Add("X-Card-Variant", "D")
	answer := g.Send(t, wrong)
	harness.WantRefused(t, answer, http.StatusBadRequest, "BAD_REQUEST")
	if err := answer.SignedFor(wrong, key.Secret); err != nil {
		t.Error(err)
	}
	answer = g.Send(t, key.Request("GET", "/api/v1/a%2fb", ""))
	harness.WantRefused(t, answer, http.StatusBadRequest, "BAD_REQUEST")
	if err := answer.Unsigned(); err != nil {
		t.Error(err)
	}
}

// TestAnswersThatCannotBeHeld are streamed without a signature, and counted.
func TestAnswersThatCannotBeHeld(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "sign_responses\nanswer_budget 1MiB\noperation short GET /api/v1/short cards:read max_answer 1KiB"})
	key := g.NewKey(nil)
	most := strings.Repeat("x", 9<<20)
	for name, reply := range map[string]harness.Reply{
		"more than max_answer":     harness.Answer(200, most[:2<<10]),
		"more than a key may hold": harness.Answer(200, most[:300<<10]),
		"the same in chunks":       {Raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(most[:300<<10]) + "0\r\n\r\n"},
		"more than is ever held":   harness.Answer(200, most),
		"a stream of events":       harness.Answer(200, "data: 1\n\n", "Content-Type: text/event-stream; charset=utf-8"),
	} {
		u.Replies(reply)
		_, want, _ := strings.Cut(reply.Raw, "\r\n\r\n")
		r := key.Post()
		if name == "more than max_answer" {
			r = key.Request(http.MethodGet, "/api/v1/short", "")
		}
		answer := g.Send(t, r)
		harness.WantAccepted(t, answer)
		if err := answer.Unsigned(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name != "the same in chunks" && answer.Body != want || len(answer.Body) > len(want) {
			t.Errorf("%s: %d bytes of the answer, want %d", name, len(answer.Body), len(want))
		}
	}
	if n := g.Scrape(t)[`card_gateway_signed_answers_total{result="unsigned"}`]; n != 5 {
		t.Errorf("%v answers were counted as unsigned, want 5", n)
	}
	u.Replies(harness.Answer(200, "after all this"))
	r := key.Post()
	if answer := g.Send(t, r); answer.SignedFor(r, key.Secret) != nil {
		t.Errorf("memory was not given back: %v", answer.SignedFor(r, key.Secret))
	}
}

// TestClientDemandsSignedAnswers lets the client for Go verify, and something between
// change the answer.
func TestClientDemandsSignedAnswers(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	u.Trusts("the client for Go sends")
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "sign_responses"})
	key := g.NewKey(nil)
	u.Replies(harness.Answer(200, `{"balance":"10.00"}`))
	for name, c := range map[string]struct {
		change func(*http.Response)
		want   string
	}{
		"untouched":      {func(*http.Response) {}, ""},
		"another status": {func(r *http.Response) { r.StatusCode = 201 }, "X-Response-Signature is wrong"},
		"another id":     {func(r *http.Response) { r.Header.Set("X-Request-Id", "x") }, "X-Response-Signature is wrong"},
		"another time":   {func(r *http.Response) { r.Header.Set("X-Response-Timestamp", "1") }, "X-Response-Signature is wrong"},
		"another hash":   {func(r *http.Response) { r.Header.Set("X-Response-Body-Hash", harness.BodyHash("")) }, "X-Response-Signature is wrong"},
		"another body":   {func(r *http.Response) { r.Body = http.NoBody }, "X-Response-Body-Hash is not"},
		"no signature":   {func(r *http.Response) { r.Header.Del("X-Response-Signature") }, "0 headers X-Response-Signature"},
		"two signatures": {func(r *http.Response) { r.Header.Add("X-Response-Signature", "x") }, "2 headers X-Response-Signature"},
	} {
		client := &http.Client{Transport: &sign.Transport{
			Signer: sign.Signer{KeyID: key.ID, Secret: key.Secret}, VerifyAnswers: true, Base: changing(c.change),
		}}
		answer, err := client.Get("http://" + g.Addr + "/api/v1/cards/c1")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil {
			_ = answer.Body.Close()
		}
	}
}

// changing changes the answers before the client verifies them.
type changing func(*http.Response)

func (c changing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		c(answer)
	}
	return answer, err
}
