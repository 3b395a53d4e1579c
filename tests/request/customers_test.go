package request

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/sandbox/issuer"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// customerGateway starts a gateway in front of an issuer that uses the form. All
// keys are of one tenant: one for each variant, and one without a variant.
func customerGateway(t testing.TB, form string, behind http.Handler, terminal string) (*harness.Gateway, *heard, map[string]harness.Credentials) {
	t.Helper()
	ears := &heard{Handler: behind}
	server := httptest.NewServer(ears)
	t.Cleanup(server.Close)
	site := harness.Site{Upstream: server.Listener.Addr().String(), Terminal: terminal}
	g := harness.StartGateway(t, harness.Site{
		Global: harness.CustomerOperations,
		Routes: "card_rate_limit\ncard_auth\ncard_translate {\nupstream " + form + "\n}\n" + site.ToIssuer(),
	})
	keys := map[string]harness.Credentials{"": g.NewKey(nil)}
	for _, d := range dialects {
		keys[d.variant] = g.NewKey(harness.Fields{"customer_variant": d.variant})
	}
	return g, ears, keys
}

// records takes the customers out of an answer and checks the shape around
// them: A and B have an envelope, C has the bare record.
func (d *dialect) records(t testing.TB, r *harness.Response, list bool) []map[string]json.RawMessage {
	t.Helper()
	text := []byte(r.Body)
	var envelope map[string]json.RawMessage
	enveloped := json.Unmarshal(text, &envelope) == nil && envelope["data"] != nil
	if enveloped {
		text = envelope["data"]
	}
	if d.variant != "C" && (envelope["request_id"] == nil || envelope["timestamp"] == nil) {
		t.Errorf("%s has no complete envelope: %s", d.variant, r)
	}
	if d.variant == "C" && (envelope["request_id"] != nil || envelope["timestamp"] != nil || enveloped && !list) {
		t.Errorf("C is answered in an envelope: %s", r)
	}
	var all []map[string]json.RawMessage
	if !list {
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("%s: %v in %s", d.variant, err, r)
	}
	for _, record := range all {
		d.spelled(t, record)
	}
	return all
}

// spelled fails the test if a record has a name that the dialect does not have.
func (d *dialect) spelled(t testing.TB, record map[string]json.RawMessage) {
	t.Helper()
	for name, value := range record {
		if d.foreign.MatchString(name) || name == "countryIsoTwo" {
			t.Errorf("a client of %s is shown %s", d.variant, name)
		}
		if inner := make(map[string]json.RawMessage); name != "metadata" && json.Unmarshal(value, &inner) == nil {
			d.spelled(t, inner)
		}
	}
	if record["id"] == nil {
		return // an object inside a record
	}
	if string(record["country"]) != `"ES"` {
		t.Errorf("a client of %s sees the country %s", d.variant, record["country"])
	}
	if metadata := `"metadata":` + string(record["metadata"]); metadata != customerMetadata {
		t.Errorf("a client of %s sees %s, want %s", d.variant, metadata, customerMetadata)
	}
	born := string(record["date_of_birth"]) + string(record["dateOfBirth"])
	if day := born[:min(11, len(born))]; day != `"1990-04-12` || (len(born) == 12) != (d.variant != "A") {
		t.Errorf("a client of %s sees the birthday %s", d.variant, born)
	}
}

// TestCustomerDialects has a client of each variant, which creates, reads and
// lists customers of one tenant. Each sees the customers of the others too, in
// its own spelling.
func TestCustomerDialects(t *testing.T) { harness.EachTerminal(t, testCustomerDialects) }

func testCustomerDialects(t *testing.T, terminal string) {
	for form, behind := range map[string]http.Handler{"snake_case": issuer.New(issuer.Options{}), "camelCase": new(camelIssuer)} {
		g, ears, keys := customerGateway(t, form, behind, terminal)
		ids := createInEach(g, ears, keys, form)
		for _, d := range dialects {
			key := keys[d.variant]
			for _, id := range ids {
				answer := g.Send(t, key.Request("GET", "/api/v1/customers/"+id, ""))
				harness.WantAccepted(t, answer)
				if got := d.records(t, answer, false); string(got[0]["id"]) != `"`+id+`"` {
					t.Errorf("asked for %s, got %s", id, answer)
				}
			}
			for _, path := range []string{"/api/v1/customers", "/api/v1/Customers?limit=10"} {
				answer := g.Send(t, key.Request("GET", path, ""))
				harness.WantAccepted(t, answer)
				if got := d.records(t, answer, true); len(got) != len(ids) {
					t.Errorf("%s lists %d customers, want %d: %s", d.variant, len(got), len(ids), answer)
				}
				if form == "snake_case" && !strings.Contains(answer.Body, `"pagination":{"total":3,`) {
					t.Errorf("the pagination of the list is lost: %s", answer)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("with an issuer of %s", form)
		}
	}
}

// createInEach creates a customer in every variant, and returns their ids. A
// known email is a conflict in each.
func createInEach(g *harness.Gateway, ears *heard, keys map[string]harness.Credentials, form string) (ids []string) {
	t := g.T
	t.Helper()
	issuers := dialects[0]
	if form == "camelCase" {
		issuers = dialects[1]
	}
	for _, d := range dialects {
		// The names in the body decide the variant, not the key.
		for i, key := range []harness.Credentials{keys[d.variant], keys[""], keys["B"]} {
			body := fmt.Sprintf(d.customer, "jose-"+d.variant+"@example.com")
			answer := g.Send(t, key.JSON("POST", "/api/v1/Customers", body))
			sent := ears.since()
			if len(sent) != 1 || d.variant == issuers.variant && sent[0] != body {
				t.Errorf("%s: the issuer was sent %q for %s", d.variant, sent, body)
			}
			var names map[string]json.RawMessage
			_ = json.Unmarshal([]byte(sent[0]), &names)
			names["id"] = []byte(`"none yet"`)
			issuers.spelled(t, names)
			if i > 0 {
				if answer.Status != http.StatusConflict {
					t.Errorf("%s: a known email is answered %s", d.variant, answer)
				}
				continue
			}
			if answer.Status != http.StatusCreated {
				t.Fatalf("%s: a customer is answered %s", d.variant, answer)
			}
			var id string
			_ = json.Unmarshal(d.records(t, answer, false)[0]["id"], &id)
			ids = append(ids, id)
		}
	}
	return ids
}

// TestKnownEmail sends an email that another variant has used: the client gets the
// issuer's own error, in each variant.
func TestKnownEmail(t *testing.T) {
	t.Parallel()
	g, _, keys := customerGateway(t, "snake_case", issuer.New(issuer.Options{}), harness.CardForward)
	first := fmt.Sprintf(dialects[0].customer, "known@example.com")
	if answer := g.Send(t, keys["A"].JSON("POST", "/api/v1/Customers", first)); answer.Status != http.StatusCreated {
		t.Fatal(answer)
	}
	const want = `{"type":"about:blank","title":"Conflict","status":409,"code":"EMAIL_EXISTS","detail":"a customer with this email exists already"}`
	for _, d := range dialects {
		answer := g.Send(t, keys[d.variant].JSON("POST", "/api/v1/Customers", fmt.Sprintf(d.customer, "known@example.com")))
		if answer.Status != http.StatusConflict || answer.Body != want {
			t.Errorf("%s: %s, want 409 %s", d.variant, answer, want)
		}
	}
}

// TestCustomerRefusals sends bodies that break the rules of their variant, and
// bodies that are not JSON. None reaches the issuer.
func TestCustomerRefusals(t *testing.T) {
	t.Parallel()
	g, ears, keys := customerGateway(t, "snake_case", issuer.New(issuer.Options{}), harness.CardForward)
	for _, d := range dialects {
		key, good := keys[d.variant], fmt.Sprintf(d.customer, "new@example.com")
		for body, want := range map[string][]string{
			d.business: d.lacks,
			strings.Replace(good, "1990-04-12", "1990-02-30", 1):                   {spell(d, "date_of_birth", "dateOfBirth")},
			strings.Replace(good, `"ES"`, `"EU"`, 1):                               {d.country},
			strings.Replace(good, `"gender"`, `"GENDER"`, 1):                       {"GENDER"},
			strings.Replace(good, `{`, `{"email":"twice@example.com",`, 1):         {"email"},
			strings.Replace(good, `{`, `{"phone_code":"+1","phoneNumber":"1",`, 1): nil,
			good + `{}`: nil, good[:len(good)-1]: nil, `[` + good + `]`: nil, "\xff" + good: nil,
		} {
			answer := g.Send(t, key.JSON("POST", "/api/v1/Customers", body))
			harness.WantRefused(t, answer, http.StatusUnprocessableEntity, "VALIDATION_FAILED")
			if got := detailFields(t, answer); want != nil && !slices.Equal(got, want) {
				t.Errorf("%s: %s names %q, want %q", d.variant, answer, got, want)
			}
		}
		for _, r := range []*harness.Request{
			key.Request("POST", "/api/v1/Customers", good),
			key.JSON("POST", "/api/v1/Customers", good).Set("Content-Type", "text/plain"),
			key.JSON("POST", "/api/v1/Customers", good).Set("Content-Type", "application/json; charset=latin1"),
			key.JSON("POST", "/api/v1/Customers", good).Add("Content-Encoding", "gzip"),
		} {
			harness.WantRefused(t, g.Send(t, r), http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
		}
		g.WantFailures(t, key, 0)
		if t.Failed() {
			t.Fatal(d.variant)
		}
	}
	if sent := ears.since(); len(sent) > 0 {
		t.Errorf("the issuer was sent %q", sent)
	}
}

func spell(d dialect, snake, camel string) string {
	if d.variant == "A" {
		return snake
	}
	return camel
}

// detailFields returns the names of the fields in a refusal.
func detailFields(t testing.TB, r *harness.Response) []string {
	t.Helper()
	var body struct {
		Error struct {
			Details []struct{ Field, Message string }
		}
	}
	if err := json.Unmarshal([]byte(r.Body), &body); err != nil || len(body.Error.Details) == 0 {
		t.Errorf("%s has no details (%v)", r, err)
	}
	var names []string
	for _, detail := range body.Error.Details {
		names = append(names, detail.Field)
		if detail.Message == "" {
			t.Errorf("%s complains of %s without a message", r, detail.Field)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
