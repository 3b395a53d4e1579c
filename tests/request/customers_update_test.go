package request

import (
	"net/http"
	"slices"
	"testing"

	"github.com/card-gateway/card-gateway/sandbox/issuer"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestCustomerUpdate patches a customer with names that show the variant, and with
// names that all variants have: for these the key's variant decides.
func TestCustomerUpdate(t *testing.T) {
	t.Parallel()
	for form, behind := range map[string]http.Handler{"snake_case": issuer.New(issuer.Options{}), "camelCase": new(camelIssuer)} {
		g, ears, keys := customerGateway(t, form, behind, harness.CardForward)
		ids := createInEach(g, ears, keys, form)
		for _, c := range []struct{ key, body, sentSnake, sentCamel, answer string }{
			{"A", `{"state":"Madrid"}`, `{"state":"Madrid"}`, `{"state":"Madrid"}`, "A"},
			{"B", `{"state":"Madrid"}`, `{"state":"Madrid"}`, `{"state":"Madrid"}`, "B"},
			{"C", `{"state":"Madrid"}`, `{"state":"Madrid"}`, `{"state":"Madrid"}`, "C"},
			{"", `{"state":"Madrid"}`, `{"state":"Madrid"}`, `{"state":"Madrid"}`, ""}, // the issuer's own answer
			{"A", `{"firstName":"X"}`, `{"first_name":"X"}`, `{"firstName":"X"}`, "B"},
			{"B", `{"firstName":"X"}`, `{"first_name":"X"}`, `{"firstName":"X"}`, "B"},
			{"C", `{"firstName":"X"}`, `{"first_name":"X"}`, `{"firstName":"X"}`, "C"},
			{"B", `{"first_name":"X"}`, `{"first_name":"X"}`, `{"firstName":"X"}`, "A"},
			{"", `{"countryIsoTwo":"ES"}`, `{"country":"ES"}`, `{"country":"ES"}`, "C"},
			{"A", `{"dateOfBirth":"1990-04-12"}`, `{"date_of_birth":"1990-04-12T00:00:00Z"}`, `{"dateOfBirth":"1990-04-12"}`, "B"},
			{"A", `{"date_of_birth":"1990-04-12T23:30:00+05:00"}`, `{"date_of_birth":"1990-04-12T23:30:00+05:00"}`, `{"dateOfBirth":"1990-04-12"}`, "A"},
		} {
			ears.since()
			answer := g.Send(t, keys[c.key].JSON("PATCH", "/api/v1/customers/"+ids[1], c.body))
			harness.WantAccepted(t, answer)
			want := c.sentSnake
			if form == "camelCase" {
				want = c.sentCamel
			}
			if sent := ears.since(); len(sent) != 1 || sent[0] != want {
				t.Errorf("the issuer was sent %q, want %s", sent, want)
			}
			if at := slices.IndexFunc(dialects, func(d dialect) bool { return d.variant == c.answer }); at >= 0 {
				dialects[at].records(t, answer, false)
			}
			if t.Failed() {
				t.Fatalf("issuer of %s, key of %q, %s: want an answer in %s, got %s", form, c.key, c.body, c.answer, answer)
			}
		}
		// A body that mixes variants does not reach the issuer.
		answer := g.Send(t, keys["A"].JSON("PATCH", "/api/v1/customers/"+ids[1], `{"first_name":"X","lastName":"Y"}`))
		harness.WantRefused(t, answer, http.StatusUnprocessableEntity, "VALIDATION_FAILED")
		if sent := ears.since(); len(sent) > 0 {
			t.Errorf("the issuer was sent %q", sent)
		}
	}
}

// TestCustomerWithoutVariant reads with a key that has no variant: the client gets
// the issuer's answer byte for byte.
func TestCustomerWithoutVariant(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Global: harness.CustomerOperations,
		Routes: "card_auth\ncard_translate\nreverse_proxy " + u.Addr,
	})
	key := g.NewKey(nil)
	for _, body := range []string{`{ "data": {"first_name":"X","lastName":1.0} }`, `[]`, `no JSON`} {
		u.Replies(harness.Reply{Raw: harness.Answer(200, body, "Content-Type: application/json", `ETag: "1"`).Raw})
		for _, r := range []*harness.Request{
			key.Request("GET", "/api/v1/customers/c1", ""), key.Request("GET", "/api/v1/customers", ""),
			key.JSON("PATCH", "/api/v1/customers/c1", `{"state":"Madrid"}`),
		} {
			got := g.Send(t, r)
			if got.Status != http.StatusOK || got.Body != body || got.Header.Get("ETag") != `"1"` {
				t.Errorf("%s %s is answered %s with %v, want %s", r.Method, r.Target, got, got.Header, body)
			}
		}
	}
}

// TestConditionsOfCustomers asks for a customer unless it is unchanged, and updates
// one only if it does not exist. A translated answer is never 304, and no write goes
// to the issuer without its condition.
func TestConditionsOfCustomers(t *testing.T) { harness.EachTerminal(t, testConditionsOfCustomers) }

func testConditionsOfCustomers(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	site := harness.Site{Upstream: u.Addr, Terminal: terminal}
	g := harness.StartGateway(t, harness.Site{
		Global: harness.CustomerOperations, Routes: "card_auth\ncard_translate\n" + site.ToIssuer(),
	})
	key := g.NewKey(harness.Fields{"customer_variant": "B"})
	const date = "Thu, 01 Jan 2026 00:00:00 GMT"
	u.Replies(harness.Answer(200, `{"first_name":"X"}`, "Content-Type: application/json", "Last-Modified: "+date))
	got := g.Send(t, key.Request("GET", "/api/v1/customers/c1", "").Add("If-Modified-Since", date).Add("If-None-Match", "*"))
	harness.WantAccepted(t, got)
	if modified := got.Header.Values("Last-Modified"); len(modified) > 0 {
		t.Errorf("the client gets Last-Modified %q of a text in another form", modified)
	}
	wantHeaders(t, u.One(t), map[string]string{"If-Modified-Since": "", "If-None-Match": ""})
	harness.WantAccepted(t, g.Send(t, key.JSON("PATCH", "/api/v1/customers/c1", `{"firstName":"X"}`).Add("If-None-Match", "*")))
	wantHeaders(t, u.One(t), map[string]string{"If-None-Match": "*"})
}
