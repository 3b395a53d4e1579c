package openapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

// TestEveryAnswer calls every operation with every outcome that the document shows,
// and holds each answer against it.
func TestEveryAnswer(t *testing.T) {
	w := startWorld(t, small)
	w.customers()
	w.cards()
	w.own()
	resubmit := w.rejected()
	w.fill()
	for _, o := range w.j.Operations {
		w.refusals(o)
	}
	resubmit()
	w.wantAllSeen()
}

const (
	virtual = "00000000-0000-4000-8000-000000000001"
	nobody  = "11111111-1111-4111-8111-111111111111"
)

// value returns a member of an answer, at the top or in data.
func value(t testing.TB, r *harness.Response, name string) string {
	t.Helper()
	var top map[string]any
	if err := json.Unmarshal([]byte(r.Body), &top); err != nil {
		t.Fatalf("%v in %s", err, r)
	}
	inner, _ := top["data"].(map[string]any)
	for _, object := range []map[string]any{top, inner} {
		if text, ok := object[name].(string); ok {
			return text
		}
	}
	t.Fatalf("no %s in %s", name, r)
	return ""
}

// customer returns a create request with another email.
func (w *world) customer(variant, email string) string {
	w.t.Helper()
	for _, o := range w.j.Operations {
		if o.Name == "create_customer" {
			example := o.RequestBody.Content.GetOrZero("application/json").Examples.GetOrZero(variant)
			var body map[string]any
			if err := example.Value.Decode(&body); err != nil {
				w.t.Fatal(err)
			}
			body["email"] = email
			return compact(body)
		}
	}
	w.t.Fatal("the document has no create_customer")
	return ""
}

func (w *world) customers() {
	for _, variant := range []string{"A", "B", "C"} {
		key := w.key(harness.Fields{"customer_variant": variant})
		id := value(w.t, w.send(201, key.JSON("POST", "/api/v1/Customers", w.customer(variant, variant+"@example.com"))), "id")
		w.send(409, key.JSON("POST", "/api/v1/Customers", w.customer(variant, variant+"@example.com")))
		w.send(422, key.JSON("POST", "/api/v1/Customers", `{"type":"alien"}`))
		w.send(415, key.Request("POST", "/api/v1/Customers", "{}"))
		w.send(200, key.Request("GET", "/api/v1/customers/"+id, ""))
		w.send(200, key.Request("GET", "/api/v1/customers?limit=1&kycState=not_submitted", ""))
		w.send(200, key.Request("GET", "/api/v1/customers?offset=99", "").Set("X-Card-Variant", "C"))
		w.send(400, key.Request("GET", "/api/v1/customers", "").Set("X-Card-Variant", "D"))
		w.send(200, key.JSON("PATCH", "/api/v1/customers/"+id, `{"state":"Kent"}`))
		w.send(415, key.Request("PATCH", "/api/v1/customers/"+id, `{"state":"Kent"}`))
		w.send(422, key.JSON("PATCH", "/api/v1/customers/"+id, `{"email":"other@example.com"}`))
		misspelt := w.g.Send(w.t, key.JSON("PATCH", "/api/v1/customers/"+id, `{"sate":"Kent"}`)) // the document has no such field
		if warning := misspelt.Header.Get("X-Sandbox-Warning"); warning != `unknown field "sate"; did you mean "state"?` {
			w.t.Errorf("the warning of a misspelt field is %q", warning)
		}
		w.send(404, key.Request("GET", "/api/v1/customers/"+nobody, ""))
	}
}

func (w *world) cards() {
	key := w.key(harness.Fields{"customer_variant": "B"})
	customer := value(w.t, w.send(201, key.JSON("POST", "/api/v1/Customers", w.customer("B", "cards@example.com"))), "id")
	issue := fmt.Sprintf(`{"customerId":%q,"productId":%q,"currency":"EUR"}`, customer, virtual)
	id := value(w.t, w.send(201, key.JSON("POST", "/api/v1/cards", issue)), "cardId")
	physical := value(w.t, w.send(201, key.JSON("POST", "/api/v1/cards", fmt.Sprintf(
		`{"customerId":%q,"productId":"00000000-0000-4000-8000-000000000002","currency":"EUR","shippingAddress":{"addressLine1":"1","city":"L","postalCode":"L","country":"GB"}}`, customer))), "cardId")
	w.send(404, key.JSON("POST", "/api/v1/cards", strings.ReplaceAll(issue, customer, nobody)))
	w.send(422, key.JSON("POST", "/api/v1/cards", `{}`))
	card := "/api/v1/cards/" + id
	for _, target := range []string{
		card, card + "/sensitive", strings.Replace(card, "cards", "card", 1) + "/sensitive", card + "/balance", card + "/limits",
		card + "/top-ups", card + "/transactions?limit=2&amountMin=1", "/api/v1/cards?status=active&limit=1", "/api/v1/products", "/api/v1/products/" + virtual,
		"/api/v1/transactions?from=2026-01-01T00%3A00%3A00%2B01%3A00&limit=1&currency=EUR", "/api/v1/customers/" + customer + "/transactions", "/api/v1/webhooks",
	} {
		w.send(200, key.Request("GET", target, ""))
	}
	list := w.send(200, key.Request("GET", "/api/v1/transactions?limit=1", ""))
	w.send(200, key.Request("GET", "/api/v1/transactions/"+regexp.MustCompile(`"transactionId":"([^"]*)"`).FindStringSubmatch(list.Body)[1], ""))
	for _, step := range []struct {
		status           int
		card, call, body string
	}{
		{409, physical, "freeze", ""}, {200, physical, "activate", ""}, {200, id, "freeze", ""}, {409, id, "activate", ""}, {200, id, "unfreeze", ""},
		{200, id, "pin", `{"pin":"0742"}`}, {422, id, "pin", `{"pin":"x"}`}, {200, id, "limits", `{"daily":1500}`}, {422, id, "limits", `{"daily":-1}`},
		{201, id, "top-ups", `{"amount":25.5,"currency":"EUR"}`}, {422, id, "top-ups", `{}`}, {404, nobody, "cancel", ""},
		{201, id, "replace", `{"reason":"lost"}`}, {409, id, "replace", ""}, {409, id, "unfreeze", ""}, {409, id, "pin", `{"pin":"0742"}`},
		{409, id, "limits", `{"daily":1500}`}, {409, id, "top-ups", `{"amount":25.5,"currency":"EUR"}`}, {200, physical, "cancel", ""},
	} {
		r := key.JSON("POST", "/api/v1/cards/"+step.card+"/"+step.call, step.body)
		if step.body == "" {
			r.Drop("Content-Type")
		}
		w.send(step.status, r)
	}
	topUps := w.send(200, key.Request("GET", card+"/top-ups", ""))
	w.send(200, key.Request("GET", "/api/v1/top-ups/"+regexp.MustCompile(`"topUpId":"([^"]*)"`).FindStringSubmatch(topUps.Body)[1], ""))

	w.send(201, documentForm(w.t, key, map[string]string{"customerId": customer, "type": "passport"}))
	w.send(404, documentForm(w.t, key, map[string]string{"customerId": nobody}))
	w.send(415, key.JSON("POST", "/api/v1/documents", "{}"))
	applicant := "/api/v1/customers/" + customer + "/applicant"
	w.send(409, key.Request("PUT", applicant, ""))
	w.send(422, key.JSON("POST", applicant, `{"documents":["x"]}`))
	w.send(201, key.Request("POST", applicant, ""))
	w.send(409, key.Request("POST", applicant, ""))
	w.send(200, key.Request("GET", applicant, ""))
}

// rejected submits an applicant whom the sandbox rejects after its time, and returns
// what resubmits it then.
func (w *world) rejected() (resubmit func()) {
	key := w.key(harness.Fields{"customer_variant": "B"})
	body := strings.Replace(w.customer("B", "rejected@example.com"), `{`, `{"externalReference":"reject-1",`, 1)
	applicant := "/api/v1/customers/" + value(w.t, w.send(201, key.JSON("POST", "/api/v1/Customers", body)), "id") + "/applicant"
	w.send(201, key.Request("POST", applicant, ""))
	return func() {
		harness.Eventually(w.t, "the applicant is rejected", func() bool {
			return value(w.t, w.g.Send(w.t, key.Request("GET", applicant, "")), "kycState") == "rejected"
		})
		w.send(200, key.Request("PUT", applicant, ""))
	}
}

// own calls what the gateway answers itself.
func (w *world) own() {
	key := w.key(harness.Fields{"mode": "test"})
	w.send(200, key.Request("GET", "/gateway/v1/key", ""))
	w.send(200, key.Request("POST", "/gateway/v1/echo?b=2", `{"amount":"10.00"}`).Set("Content-Type", "application/json"))
	w.send(422, key.Request("POST", "/gateway/v1/key/rotate", "{}"))
	w.send(200, key.Request("POST", "/gateway/v1/key/rotate", ""))
	w.send(409, key.Request("POST", "/gateway/v1/key/rotate", ""))
	w.send(200, key.Request("POST", "/gateway/v1/nonce/close", ""))
}

// fill creates until the sandbox is full.
func (w *world) fill() {
	key := w.key(nil)
	w.send(507, key.JSON("POST", "/api/v1/Customers", w.customer("A", "full@example.com")))
	owner := w.key(harness.Fields{"customer_variant": "B"})
	customer := regexp.MustCompile(`"id":"([^"]*)","type"`).FindStringSubmatch(w.g.Send(w.t, owner.Request("GET", "/api/v1/customers?limit=1", "")).Body)[1]
	issue := fmt.Sprintf(`{"customerId":%q,"productId":%q,"currency":"EUR"}`, customer, virtual)
	last := ""
	for range 3 {
		last = value(w.t, w.send(201, owner.JSON("POST", "/api/v1/cards", issue)), "cardId")
	}
	w.send(507, owner.JSON("POST", "/api/v1/cards", issue))
	w.send(507, owner.Request("POST", "/api/v1/cards/"+last+"/replace", ""))
	for range 2 {
		w.send(201, documentForm(w.t, owner, nil))
	}
	w.send(507, documentForm(w.t, owner, nil))
	w.send(507, owner.JSON("POST", "/api/v1/cards/"+last+"/top-ups", `{"amount":1,"currency":"EUR"}`))
}

// forced are the statuses that the sandbox answers on purpose.
var forced = []int{404, 409, 422, 429, 500, 502, 503, 504}

// refusals causes the refusals that any operation has, and forces what has not
// been seen of it.
func (w *world) refusals(o document.Operation) {
	target := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(o.Path, nobody)
	free, own := w.key(nil), o.Scope == ""
	w.send(400, free.Request(o.Method, target+"?%zz", ""))
	w.send(401, free.Request(o.Method, target, "").Forge())
	w.send(405, free.Request(strings.ToLower(o.Method), target, ""))
	w.send(413, free.JSON(o.Method, target, "").Set("Content-Length", strconv.Itoa(21<<20)))
	limited := w.key(harness.Fields{"limits": map[string]string{"default": "1/1d"}})
	w.g.Send(w.t, limited.JSON(o.Method, target, "x"))
	w.send(429, limited.JSON(o.Method, target, ""))
	if o.Name == "issue_card" { // a body that does not arrive; the answer is the same everywhere
		w.send(408, free.Request(o.Method, target, "").Set("Content-Length", "5"))
	}
	if own {
		return
	}
	w.send(403, w.key(harness.Fields{"scopes": []string{"webhooks:write"}}).Request(o.Method, target, ""))
	w.send(421, free.Request(o.Method, target, "").Set("Host", "elsewhere.example"))
	body := map[string]string{"create_customer": w.customer("A", "forced@example.com"), "update_customer": `{"state":"Kent"}`}[o.Name]
	force := func(value string) *harness.Request {
		return free.JSON(o.Method, target, body).Set("X-Sandbox-Force", value)
	}
	w.send(400, force("teapot"))
	for _, status := range forced {
		documented := o.Responses.Codes.GetOrZero(strconv.Itoa(status))
		if documented != nil && documented.Content.GetOrZero("application/problem+json") != nil {
			w.send(status, force(strconv.Itoa(status)))
		}
	}
}

// notCaused are the answers that this test does not cause for an operation, and why.
func notCaused(o document.Operation, status string) string {
	switch {
	case status == "408" && o.Name != "issue_card":
		return "caused for one operation: it takes a second each"
	case o.Scope == "" && slices.Contains([]string{"404", "421", "500", "503"}, status):
		return "the gateway's own operations cannot be made to fail; the recorded answers have these"
	default:
		return ""
	}
}

// wantAllSeen fails the test if a documented answer was never seen.
func (w *world) wantAllSeen() {
	for _, o := range w.j.Operations {
		for status := range o.Responses.Codes.FromOldest() {
			number, err := strconv.Atoi(status)
			if err != nil {
				w.t.Errorf("%s %s documents the status %s", o.Method, o.Path, status)
			}
			if !w.seen[o.Method+" "+o.Path][number] && notCaused(o, status) == "" {
				w.t.Errorf("%s documents that %s %s answers %s, which was not seen", document.Path, o.Method, o.Path, status)
			}
		}
	}
}

func status(n int) string { return strconv.Itoa(n) }
