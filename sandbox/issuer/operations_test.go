package issuer

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestAnswersEveryOperation takes the operations from the configuration that is
// shown to users, and wants none of them to be unknown here.
func TestAnswersEveryOperation(t *testing.T) {
	text, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\s+operation \w+ ([A-Z]+) (\S+)`).FindAllSubmatch(text, -1)
	if len(declared) < 20 {
		t.Fatalf("the example declares %d operations", len(declared))
	}
	i := newTestIssuer(Options{})
	for _, operation := range declared {
		target := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(string(operation[2]), "x")
		r := request(string(operation[1]), target, "")
		if _, pattern := i.routes.Handler(r); pattern == "" {
			t.Errorf("the sandbox has no %s %s", operation[1], operation[2])
		}
	}
}

// A stepping issuer has a clock that the test moves.
func stepping() (i *Issuer, pass func(time.Duration)) {
	now := testNow
	return New(Options{Now: func() time.Time { return now }}), func(d time.Duration) { now = now.Add(d) }
}

func TestApplicant(t *testing.T) {
	for _, test := range []struct {
		reference string
		decided   string
	}{{"ref-1", "approved"}, {"reject-1", "rejected"}} {
		i, pass := stepping()
		id := at(t, ask(t, i, 201, request("POST", "/api/v1/customers", strings.Replace(ann, "ref-1", test.reference, 1))), "data", "id").(string)
		target := "/api/v1/customers/" + id + "/applicant"
		want := func(state string, submissions float64, r map[string]any) {
			t.Helper()
			if at(t, r, "kycState") != state || at(t, r, "submissions") != submissions {
				t.Errorf("%s: applicant is %v, want %s", test.reference, r, state)
			}
			if got := at(t, ask(t, i, 200, request("GET", "/api/v1/customers/"+id, "")), "data", "kyc_state"); got != state {
				t.Errorf("%s: kyc_state is %v, want %s", test.reference, got, state)
			}
		}
		want("not_submitted", 0, ask(t, i, 200, request("GET", target, "")))
		ask(t, i, 409, request("PUT", target, ""))
		document := upload(t, i, "customerId="+id)
		ask(t, i, 422, request("POST", target, `{"documents":["`+virtualProduct+`"]}`))
		ask(t, i, 422, request("POST", target, `[]`))
		want("pending", 1, ask(t, i, 201, request("POST", target, `{"documents":["`+document+`"]}`)))
		ask(t, i, 409, request("POST", target, ""))
		pass(decisionTime - time.Second)
		want("pending", 1, ask(t, i, 200, request("GET", target, "")))
		pass(time.Second)
		want(test.decided, 1, ask(t, i, 200, request("GET", target, "")))
		if test.decided == "approved" {
			ask(t, i, 409, request("PUT", target, ""))
			continue
		}
		want("pending", 2, ask(t, i, 200, request("PUT", target, "")))
		pass(decisionTime)
		want("approved", 2, ask(t, i, 200, request("GET", target, "")))
	}
}

func TestTopUps(t *testing.T) {
	i, pass := stepping()
	card := "/api/v1/cards/" + issueCard(t, i, createAnn(t, i))
	before := at(t, ask(t, i, 200, request("GET", card+"/balance", "")), "balance").(float64)
	for _, bad := range []string{``, `{}`, `{"amount":0,"currency":"EUR"}`, `{"amount":10000.01,"currency":"EUR"}`, `{"amount":5,"currency":"USD"}`} {
		ask(t, i, 422, request("POST", card+"/top-ups", bad))
	}
	good := ask(t, i, 201, request("POST", card+"/top-ups", `{"amount":25.50,"currency":"EUR"}`))
	failing := ask(t, i, 201, request("POST", card+"/top-ups", `{"amount":1,"currency":"EUR","reference":"fail-1"}`))
	if at(t, good, "status") != "pending" {
		t.Errorf("a new top-up is %v", good)
	}
	pass(decisionTime)
	for made, status := range map[string]string{at(t, good, "topUpId").(string): "completed", at(t, failing, "topUpId").(string): "failed"} {
		if got := at(t, ask(t, i, 200, request("GET", "/api/v1/top-ups/"+made, "")), "status"); got != status {
			t.Errorf("the top-up is %v, want %s", got, status)
		}
	}
	if after := at(t, ask(t, i, 200, request("GET", card+"/balance", "")), "balance").(float64); after != before+25.50 {
		t.Errorf("balance %v after 25.50 on %v", after, before)
	}
	list := ask(t, i, 200, request("GET", card+"/top-ups?status=failed&limit=1", ""))
	if at(t, list, "pagination", "total") != 1.0 {
		t.Errorf("failed top-ups: %v", list)
	}
	ask(t, i, 200, request("POST", card+"/freeze", ""))
	ask(t, i, 409, request("POST", card+"/top-ups", `{"amount":5,"currency":"EUR"}`))
	ask(t, i, 404, request("GET", "/api/v1/top-ups/"+virtualProduct, ""))
}

func TestReplaceCard(t *testing.T) {
	i := newTestIssuer(Options{})
	id := issueCard(t, i, createAnn(t, i))
	old := ask(t, i, 200, request("GET", "/api/v1/cards/"+id, ""))
	ask(t, i, 422, request("POST", "/api/v1/cards/"+id+"/replace", `{"reason":"bored"}`))
	made := ask(t, i, 201, request("POST", "/api/v1/cards/"+id+"/replace", `{"reason":"lost"}`))
	next := ask(t, i, 200, request("GET", "/api/v1/cards/"+at(t, made, "cardId").(string), ""))
	if at(t, made, "replacedCardId") != id || at(t, next, "balance") != at(t, old, "balance") ||
		at(t, next, "card_number_masked") == at(t, old, "card_number_masked") {
		t.Errorf("%v is replaced by %v", old, next)
	}
	old = ask(t, i, 200, request("GET", "/api/v1/cards/"+id, ""))
	if at(t, old, "status") != "cancelled" || at(t, old, "balance") != 0.0 {
		t.Errorf("the replaced card is %v", old)
	}
	if total := at(t, ask(t, i, 200, request("GET", "/api/v1/transactions", "")), "pagination", "total"); total != 12.0 {
		t.Errorf("%v transactions of a card and its replacement", total)
	}
	if total := at(t, ask(t, i, 200, request("GET", "/api/v1/cards?status=active", "")), "pagination", "total"); total != 1.0 {
		t.Errorf("%v cards are active", total)
	}
}

func TestPINAndLimits(t *testing.T) {
	i := newTestIssuer(Options{})
	card := "/api/v1/cards/" + issueCard(t, i, createAnn(t, i))
	for _, bad := range []string{``, `{"pin":1234}`, `{"pin":"12345"}`, `{"pin":"abcd"}`} {
		ask(t, i, 422, request("POST", card+"/pin", bad))
	}
	if answer := ask(t, i, 200, request("POST", card+"/pin", `{"pin":"0742"}`)); answer != nil {
		t.Errorf("the PIN is answered with %v", answer)
	}
	for _, bad := range []string{``, `{}`, `{"daily":-1}`, `{"weekly":1}`, `{"daily":10001}`, `{"perTransaction":"x"}`} {
		ask(t, i, 422, request("POST", card+"/limits", bad))
	}
	ask(t, i, 200, request("POST", card+"/limits", `{"daily":1500.25}`))
	got := ask(t, i, 200, request("GET", card+"/limits", ""))
	if at(t, got, "daily") != 1500.25 || at(t, got, "perTransaction") != 1000.0 || at(t, got, "monthly") != 10000.0 {
		t.Errorf("limits %v", got)
	}
	ask(t, i, 200, request("POST", card+"/cancel", ""))
	ask(t, i, 409, request("POST", card+"/limits", `{"daily":2000}`))
	ask(t, i, 409, request("POST", card+"/pin", `{"pin":"0742"}`))
}

func TestTransactionByID(t *testing.T) {
	i := newTestIssuer(Options{})
	issueCard(t, i, createAnn(t, i))
	first := at(t, ask(t, i, 200, request("GET", "/api/v1/transactions?limit=1", "")), "data").([]any)[0]
	id := at(t, first, "transactionId").(string)
	if got := ask(t, i, 200, request("GET", "/api/v1/transactions/"+id, "")); fmt.Sprint(got) != fmt.Sprint(first) {
		t.Errorf("got %v, listed %v", got, first)
	}
	ask(t, i, 404, request("GET", "/api/v1/transactions/"+virtualProduct, ""))
}

func TestWebhooks(t *testing.T) {
	i := newTestIssuer(Options{MaxRecords: 1})
	for _, bad := range []string{``, `{"url":"http://example.com"}`, `{"url":"https://"}`} {
		ask(t, i, 422, request("POST", "/api/v1/webhooks", bad))
	}
	ask(t, i, 201, request("POST", "/api/v1/webhooks", `{"url":"https://example.com/hook","events":["card.frozen"]}`))
	ask(t, i, 507, request("POST", "/api/v1/webhooks", `{"url":"https://example.com/hook"}`))
	list := at(t, ask(t, i, 200, request("GET", "/api/v1/webhooks", "")), "data").([]any)
	if len(list) != 1 || at(t, list[0], "url") != "https://example.com/hook" {
		t.Errorf("webhooks %v", list)
	}
}

func TestFilters(t *testing.T) {
	i := newTestIssuer(Options{})
	id := createAnn(t, i)
	issueCard(t, i, id)
	for target, want := range map[string]float64{
		"/api/v1/customers?email=ANN%40example.com": 1, "/api/v1/customers?email=bob%40example.com": 0,
		"/api/v1/customers?externalReference=ref-1&kycState=not_submitted": 1, "/api/v1/customers?type=business": 0,
		"/api/v1/cards?customerId=" + id: 1, "/api/v1/cards?customerId=" + virtualProduct: 0,
		"/api/v1/cards?cardType=virtual&currency=EUR": 1, "/api/v1/products?cardType=physical": 1,
	} {
		if total := at(t, ask(t, i, 200, request("GET", target, "")), "pagination", "total"); total != want {
			t.Errorf("%s: %v, want %v", target, total, want)
		}
	}
}
