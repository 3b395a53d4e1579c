package issuer

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestIssueCard(t *testing.T) {
	i := newTestIssuer(Options{})
	customerID := createAnn(t, i)
	shipping := `,"shippingAddress":{"addressLine1":"1 High St","city":"Leeds","postalCode":"LS1","country":"GB"}`
	body := func(customer, product, currency, rest string) string {
		return fmt.Sprintf(`{"customerId":%q,"productId":%q,"currency":%q%s}`, customer, product, currency, rest)
	}
	nobody := "11111111-1111-4111-8111-111111111111"
	for _, test := range []struct {
		status int
		body   string
	}{
		{201, body(customerID, virtualProduct, "EUR", "")},
		{201, body(strings.ToUpper(customerID), physicalProduct, "USD", shipping)},
		{404, body(nobody, virtualProduct, "EUR", "")},
		{404, body(customerID, nobody, "EUR", "")},
		{422, body("ann", virtualProduct, "EUR", "")},
		{422, body(customerID, "gold", "EUR", "")},
		{422, body(customerID, virtualProduct, "", "")},
		{422, body(customerID, virtualProduct, "XTS", "")},
		{422, body(customerID, physicalProduct, "EUR", "")},
		{422, `{"customerId":7}`},
		{422, ``},
	} {
		answer := ask(t, i, test.status, request("POST", "/api/v1/cards", test.body))
		if test.status == 201 && (len(answer) != 7 || at(t, answer, "createdAt") != "2026-03-04T05:06:07Z") {
			t.Errorf("issued %v", answer)
		}
	}
	if total := at(t, ask(t, i, 200, request("GET", "/api/v1/cards", "")), "pagination", "total"); total != 2.0 {
		t.Errorf("%v cards, want 2", total)
	}
}

func TestGetCard(t *testing.T) {
	i := newTestIssuer(Options{})
	cardID := issueCard(t, i, createAnn(t, i))
	record := ask(t, i, 200, request("GET", "/api/v1/cards/"+cardID, ""))
	masked, _ := at(t, record, "card_number_masked").(string)
	if at(t, record, "status") != "active" || !regexp.MustCompile(`^[* ]+[0-9]{4}$`).MatchString(masked) {
		t.Errorf("record %v", record)
	}
	balance := ask(t, i, 200, request("GET", "/api/v1/cards/"+cardID+"/balance", ""))
	if at(t, balance, "balance") != at(t, record, "balance") || at(t, balance, "balance") == nil {
		t.Errorf("balance %v, record %v", balance, record)
	}
	ask(t, i, 404, request("GET", "/api/v1/cards/"+virtualProduct, ""))
}

func TestSensitiveDetails(t *testing.T) {
	i := newTestIssuer(Options{})
	cardID := issueCard(t, i, createAnn(t, i))
	details := ask(t, i, 200, request("GET", "/api/v1/cards/"+cardID+"/sensitive", ""))
	number, _ := at(t, details, "cardNumber").(string)
	if !regexp.MustCompile(`^[0-9]{4}( [0-9]{4}){3}$`).MatchString(number) || !passesLuhn(number) {
		t.Errorf("card number %q", number)
	}
	if at(t, details, "expiryDate") != "03/30" || at(t, details, "state") != "Active" || len(at(t, details, "cvv").(string)) != 3 {
		t.Errorf("details %v", details)
	}
	ask(t, i, 404, request("GET", "/api/v1/cards/"+virtualProduct+"/sensitive", ""))
}

// passesLuhn is the check as its textbook says it, from the right.
func passesLuhn(number string) bool {
	sum, double := 0, false
	for n := len(number) - 1; n >= 0; n-- {
		if number[n] == ' ' {
			continue
		}
		d := int(number[n] - '0')
		if double {
			d = d*2/10 + d*2%10
		}
		sum, double = sum+d, !double
	}
	return sum%10 == 0
}

func TestLuhn(t *testing.T) {
	for number, want := range map[string]bool{"4111 1111 1111 1111": true, "4111 1111 1111 1112": false, "79927398713": true} {
		if passesLuhn(number) != want {
			t.Errorf("the test's own check is wrong for %s", number)
		}
	}
	for n := range 1000 {
		if number := cardNumberOf(fmt.Sprint(n)); !passesLuhn(number) || len(number) != 16 {
			t.Fatalf("%s does not pass", number)
		}
	}
}

func TestCardStates(t *testing.T) {
	i := newTestIssuer(Options{})
	customerID := createAnn(t, i)
	virtual := issueCard(t, i, customerID)
	physical := at(t, ask(t, i, 201, request("POST", "/api/v1/cards", `{"customerId":"`+customerID+`","productId":"`+physicalProduct+
		`","currency":"EUR","shippingAddress":{"addressLine1":"1","city":"L","postalCode":"L","country":"GB"}}`)), "cardId").(string)
	for _, step := range []struct {
		card, do string
		status   int
		then     string
	}{
		{virtual, "unfreeze", 200, "active"},
		{virtual, "freeze", 200, "frozen"},
		{virtual, "freeze", 200, "frozen"},
		{virtual, "activate", 409, "frozen"},
		{virtual, "unfreeze", 200, "active"},
		{physical, "freeze", 409, "inactive"},
		{physical, "unfreeze", 409, "inactive"},
		{physical, "activate", 200, "active"},
		{virtual, "freeze", 200, "frozen"},
		{virtual, "cancel", 200, "cancelled"},
		{virtual, "cancel", 200, "cancelled"},
		{virtual, "unfreeze", 409, "cancelled"},
		{virtual, "activate", 409, "cancelled"},
		{virtual, "freeze", 409, "cancelled"},
		{virtual, "replace", 409, "cancelled"},
	} {
		answer := ask(t, i, step.status, request("POST", "/api/v1/cards/"+step.card+"/"+step.do, ""))
		if step.status == 200 && answer != nil {
			t.Errorf("%s answers a body: %v", step.do, answer)
		}
		if got := at(t, ask(t, i, 200, request("GET", "/api/v1/cards/"+step.card, "")), "status"); got != step.then {
			t.Errorf("after %s: %v, want %s", step.do, got, step.then)
		}
	}
	ask(t, i, 404, request("POST", "/api/v1/cards/"+virtualProduct+"/unfreeze", ""))
}
